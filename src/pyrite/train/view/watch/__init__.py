"""What ``pyrite watch`` shows: a run in a terminal, from what its file of events tells.

    follower.py   reads the file, a slice at a time
    run.py        what the events say so far        pace.py     how fast, how long
    series.py     one curve, thinned to pixels      machine.py  processors, memory, GPUs
    plot.py, text.py     curves, tables and lines as text
    screen.py     the application; Textual draws it and hands it keys

It runs in a process of its own, so that no training step waits for a frame.  Only screen.py and
plot.py need the packages of the extra ``tui``.
"""
