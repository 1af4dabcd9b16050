"""Parts of verbs: progress, forecasts, completion candidates, past nodes, and the processes of this machine."""
