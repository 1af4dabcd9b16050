"""Line-API widgets that draw frozen view-models; nothing here knows of jobs or the network."""
