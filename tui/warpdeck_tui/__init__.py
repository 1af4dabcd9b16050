"""The full-screen app.

It displays the state that the controller reports, and offers all requests that the command line offers.
"""
