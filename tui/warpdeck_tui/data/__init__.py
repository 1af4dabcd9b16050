"""The app's connection to the controller, the rows it has received, and the changes made from the app."""
