"""The controller: one task owns the state; events go through the reducer, a batch is one transaction, effects follow.

state.py       the state                                  events.py   what may happen, and what follows (effects)
transaction.py changes of it, and how they are undone
reduce.py      event -> changes and effects               jobs.py, progress.py, nodes.py   its handlers
view.py        state -> the planner's view                launching.py, environment.py     job -> Launch
present.py     state -> rows for clients                  app.py      the loop         daemon.py   the process
"""
