"""The controller: one task owns the state.

Events pass through the reducer. One batch of events is one transaction, and the effects run after its commit.

    state        the tables, the transactions that change them, and the views that follow from them
    events       everything that can happen, and the effects that follow
    launch       the messages that start jobs and steps on nodes
    reducers     one function for each kind of event
    presenters   the rows that clients see
    planning     planning passes and forecasts
    loop         the task that owns the state, and the background tasks beside it
"""
