"""How fast the server is on this machine, for one no-op workflow with one no-op activity.

Numbers on the command line come in; a table and, if wanted, a JSON file go out. Every run starts its own Postgres
(durable: fsync and synchronous commit on), its own Valkey and the real server as a child process. The load comes from
a third process that speaks the worker protocol over raw keep-alive connections. Nothing here judges a speed by an exit
code: bars are shown as met or missed, because a table of a busy machine proves nothing.

``stack`` starts the processes, ``sampling`` and ``machine`` read counters and processor time from outside, ``wire``
and ``protocol`` are the client, ``load`` and ``idle`` run inside the load process, ``driver`` starts that process and
frames its measured window, ``report`` holds the results and ``table`` prints them.
"""
