; The executor: threads that run programs in order.
;
; A program is an array of commands.  A command is one launch, in 8-byte words:
;   0 function   1 count of workgroups   2 workgroups in a chunk   3 count of chunks
;   4 words of this command
;   5 ... what the function gets: the sizes of the grid, the parameters
;
; Who takes part has a seat.  There is one for each worker, which is pinned to a processor, and a
; reader that helps takes the seat of the processor that it is on: two threads on one processor
; would do the work of one, and be late with it.  Who finds the seat taken sleeps.
;
; Any thread may take part at any time: it claims a chunk of the current command and runs it.  Each
; seat has a share of the chunks, always the same part of them, so that a processor comes back to
; what is in its own caches; who has none left claims of the others' shares.  Who finishes the last
; chunk publishes the next command.  So commands run one after the other, each on all threads.
;
; State, in words; what different threads write stands in different cache lines:
;   0 number       commands published
;   8 unfinished   chunks of the current command that are not done
;  16 command      the current one      17 left      commands of the program after it
;  18 busy         1 while a command is published, or a thread is about to publish one
;  19 tail         programs begun
;  24 head         programs submitted   25 completed programs done
;  32 generation   goes up when there may be something to do: what idle workers sleep on
;  33 sleepers     workers asleep       34 waiters   readers asleep, on `completed`
;  48 width        constant: seats      49 spins     constant: looks before a thread goes to sleep
;  50 stop         1 when workers shall end
;  64 ring         1024 programs: first command, count of commands
;2112 seat of      constant: for each of 1024 processors its seat, or -1
;3136 seats        8 words each
;
; A seat, in words:
;   0 share        number of the command << 24 | chunks of the share that nobody has claimed
;   1 taken        1 while somebody has the seat
;
; Why a share has the number of its command: a thread may sleep between reading the share and
; changing it, and must not take a chunk of a later command.  Who holds a chunk keeps `command`.

declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Run one chunk, of this seat's share or of the next that has one; false if there is none to claim,
; or workers shall end.
define internal i1 @step(ptr %e, i64 %seat) {
entry:
  %stop.at = getelementptr i64, ptr %e, i64 50
  %unfinished.at = getelementptr i64, ptr %e, i64 8
  %command.at = getelementptr i64, ptr %e, i64 16
  %width.at = getelementptr i64, ptr %e, i64 48
  %width = load i64, ptr %width.at, align 8
  %stop = load atomic i64, ptr %stop.at seq_cst, align 8
  %shall.end = icmp ne i64 %stop, 0
  br i1 %shall.end, label %nothing, label %look
look:
  %looks = phi i64 [ 0, %entry ], [ %looks.then, %next ]
  %around = add i64 %seat, %looks
  %is.beyond = icmp uge i64 %around, %width
  %again = sub i64 %around, %width
  %whose = select i1 %is.beyond, i64 %again, i64 %around
  %share.at = call ptr @seat_at(ptr %e, i64 %whose)
  %unclaimed = call i64 @claim(ptr %share.at)
  %none = icmp eq i64 %unclaimed, 0
  br i1 %none, label %next, label %run
next:
  %looks.then = add i64 %looks, 1
  %is.more = icmp ult i64 %looks.then, %width
  br i1 %is.more, label %look, label %nothing
run:
  %command = load ptr, ptr %command.at, align 8
  %count.at = getelementptr i64, ptr %command, i64 1
  %chunk.at = getelementptr i64, ptr %command, i64 2
  %slots = getelementptr i64, ptr %command, i64 5
  %function = load ptr, ptr %command, align 8
  %count = load i64, ptr %count.at, align 8
  %chunk = load i64, ptr %chunk.at, align 8
  %index = call i64 @chunk_of(ptr %command, i64 %whose, i64 %unclaimed, i64 %width)
  %begin = mul i64 %index, %chunk
  %end.whole = add i64 %begin, %chunk
  %end = call i64 @llvm.umin.i64(i64 %end.whole, i64 %count)
  call void %function(ptr %slots, i64 %begin, i64 %end)
  %unfinished = atomicrmw sub ptr %unfinished.at, i64 1 acq_rel
  %is.last = icmp eq i64 %unfinished, 1
  br i1 %is.last, label %last, label %ran
last:
  call void @advance(ptr %e)
  br label %ran
ran:
  ret i1 true
nothing:
  ret i1 false
}

; Claim one chunk of a share; return how many nobody had claimed, 0 if there is none.
define internal i64 @claim(ptr %share.at) {
entry:
  %first = load atomic i64, ptr %share.at acquire, align 8
  br label %look
look:
  %seen = phi i64 [ %first, %entry ], [ %now, %try ]
  %unclaimed = and i64 %seen, 16777215
  %none = icmp eq i64 %unclaimed, 0
  br i1 %none, label %done, label %try
try:
  %less = sub i64 %seen, 1
  %exchanged = cmpxchg ptr %share.at, i64 %seen, i64 %less acq_rel acquire
  %now = extractvalue { i64, i1 } %exchanged, 0
  %won = extractvalue { i64, i1 } %exchanged, 1
  br i1 %won, label %done, label %look
done:
  ret i64 %unclaimed
}

; How many chunks a seat's share has: the first seats have one more where they do not go up evenly.
define internal i64 @share_size(i64 %seat, i64 %chunks, i64 %width) {
  %whole = add i64 %chunks, %width
  %before = add i64 %seat, 1
  %rest = sub i64 %whole, %before
  %size = udiv i64 %rest, %width
  ret i64 %size
}

; The chunk that comes next in a seat's share, of which so many are left: shares lie one after the
; other.
define internal i64 @chunk_of(ptr %command, i64 %seat, i64 %left, i64 %width) {
  %chunks.at = getelementptr i64, ptr %command, i64 3
  %chunks = load i64, ptr %chunks.at, align 8
  %size = call i64 @share_size(i64 %seat, i64 %chunks, i64 %width)
  %done = sub i64 %size, %left
  %even = udiv i64 %chunks, %width
  %larger = urem i64 %chunks, %width
  %evenly = mul i64 %seat, %even
  %more = call i64 @llvm.umin.i64(i64 %seat, i64 %larger)
  %first = add i64 %evenly, %more
  %of.share = add i64 %first, %done
  ret i64 %of.share
}

define internal ptr @seat_at(ptr %e, i64 %seat) {
  %seats = getelementptr i64, ptr %e, i64 3136
  %word = shl i64 %seat, 3
  %at = getelementptr i64, ptr %seats, i64 %word
  ret ptr %at
}

define internal ptr @taken_at(ptr %e, i64 %seat) {
  %seat.at = call ptr @seat_at(ptr %e, i64 %seat)
  %at = getelementptr i64, ptr %seat.at, i64 1
  ret ptr %at
}

; Go on after the current command.  Only who finished it calls this.
define internal void @advance(ptr %e) {
entry:
  %command.at = getelementptr i64, ptr %e, i64 16
  %left.at = getelementptr i64, ptr %e, i64 17
  %completed.at = getelementptr i64, ptr %e, i64 25
  %waiters.at = getelementptr i64, ptr %e, i64 34
  %left = load i64, ptr %left.at, align 8
  %is.end = icmp eq i64 %left, 0
  br i1 %is.end, label %complete, label %next
next:
  %command = load ptr, ptr %command.at, align 8
  %words.at = getelementptr i64, ptr %command, i64 4
  %words = load i64, ptr %words.at, align 8
  %following = getelementptr i64, ptr %command, i64 %words
  %left.then = sub i64 %left, 1
  store i64 %left.then, ptr %left.at, align 8
  ; This thread takes a chunk itself.
  call void @publish(ptr %e, ptr %following, i64 1)
  ret void
complete:
  %completed = atomicrmw add ptr %completed.at, i64 1 seq_cst
  %waiters = load atomic i64, ptr %waiters.at seq_cst, align 8
  %alone = icmp eq i64 %waiters, 0
  br i1 %alone, label %begin, label %wake
wake:
  call void @unpark(ptr %completed.at, i32 2147483647, i32 -1)
  br label %begin
begin:
  ; This thread takes a chunk of that, too, or gives its seat to a worker that does.
  call void @begin_program(ptr %e, i64 1)
  ret void
}

; Begin the next program, or be idle.  Only who has set `busy` calls this; `taken` as of `publish`.
define internal void @begin_program(ptr %e, i64 %taken) {
entry:
  %left.at = getelementptr i64, ptr %e, i64 17
  %busy.at = getelementptr i64, ptr %e, i64 18
  %tail.at = getelementptr i64, ptr %e, i64 19
  %head.at = getelementptr i64, ptr %e, i64 24
  %ring = getelementptr i64, ptr %e, i64 64
  br label %look
look:
  %tail = load i64, ptr %tail.at, align 8
  %head = load atomic i64, ptr %head.at seq_cst, align 8
  %is.empty = icmp eq i64 %tail, %head
  br i1 %is.empty, label %idle, label %take
take:
  %slot = and i64 %tail, 1023
  %word = shl i64 %slot, 1
  %program.at = getelementptr i64, ptr %ring, i64 %word
  %count.at = getelementptr i64, ptr %program.at, i64 1
  %command = load ptr, ptr %program.at, align 8
  %count = load i64, ptr %count.at, align 8
  %tail.then = add i64 %tail, 1
  store atomic i64 %tail.then, ptr %tail.at release, align 8
  %left = sub i64 %count, 1
  store i64 %left, ptr %left.at, align 8
  call void @publish(ptr %e, ptr %command, i64 %taken)
  ret void
idle:
  store atomic i64 0, ptr %busy.at seq_cst, align 8
  ; A program may have come in before that was seen.
  %head.now = load atomic i64, ptr %head.at seq_cst, align 8
  %is.still = icmp eq i64 %tail, %head.now
  br i1 %is.still, label %done, label %again
again:
  %exchanged = cmpxchg ptr %busy.at, i64 0, i64 1 seq_cst seq_cst
  %won = extractvalue { i64, i1 } %exchanged, 1
  br i1 %won, label %look, label %done
done:
  ret void
}

; Make a command the current one and wake as many as it has chunks, less `taken`.
define internal void @publish(ptr %e, ptr %command, i64 %taken) {
entry:
  %unfinished.at = getelementptr i64, ptr %e, i64 8
  %command.at = getelementptr i64, ptr %e, i64 16
  %generation.at = getelementptr i64, ptr %e, i64 32
  %sleepers.at = getelementptr i64, ptr %e, i64 33
  %chunks.at = getelementptr i64, ptr %command, i64 3
  %chunks = load i64, ptr %chunks.at, align 8
  store ptr %command, ptr %command.at, align 8
  store atomic i64 %chunks, ptr %unfinished.at monotonic, align 8
  call void @deal(ptr %e, i64 %chunks)
  %generation = atomicrmw add ptr %generation.at, i32 1 seq_cst
  %sleepers = load atomic i64, ptr %sleepers.at seq_cst, align 8
  %all.awake = icmp eq i64 %sleepers, 0
  %wanted = sub i64 %chunks, %taken
  %is.enough = icmp eq i64 %wanted, 0
  %be.quiet = or i1 %all.awake, %is.enough
  br i1 %be.quiet, label %done, label %wake
wake:
  %some = call i64 @llvm.umin.i64(i64 %wanted, i64 %sleepers)
  %some.narrow = trunc i64 %some to i32
  %mask = call i32 @free_seats(ptr %e)
  call void @unpark(ptr %generation.at, i32 %some.narrow, i32 %mask)
  br label %done
done:
  ret void
}

; Give each seat its share of the chunks, the first seat last: its share is never empty, so the
; command cannot be done, and another one dealt, before this is.
define internal void @deal(ptr %e, i64 %chunks) {
entry:
  %width.at = getelementptr i64, ptr %e, i64 48
  %width = load i64, ptr %width.at, align 8
  %number = load i64, ptr %e, align 8
  %number.then = add i64 %number, 1
  store i64 %number.then, ptr %e, align 8
  %high = shl i64 %number.then, 24
  br label %next
next:
  %left = phi i64 [ %width, %entry ], [ %seat, %dealt ]
  %seat = sub i64 %left, 1
  %size = call i64 @share_size(i64 %seat, i64 %chunks, i64 %width)
  %is.empty = icmp eq i64 %size, 0
  br i1 %is.empty, label %dealt, label %give
give:
  %share = or i64 %high, %size
  %share.at = call ptr @seat_at(ptr %e, i64 %seat)
  store atomic i64 %share, ptr %share.at release, align 8
  br label %dealt
dealt:
  %is.last = icmp eq i64 %seat, 0
  br i1 %is.last, label %done, label %next
done:
  ret void
}

; Bit i is set when one of the seats i, i + 32, ... may be free.
define internal i32 @free_seats(ptr %e) {
entry:
  %width.at = getelementptr i64, ptr %e, i64 48
  %width = load i64, ptr %width.at, align 8
  br label %look
look:
  %seat = phi i64 [ 0, %entry ], [ %seat.then, %look ]
  %mask = phi i32 [ 0, %entry ], [ %mask.then, %look ]
  %taken.at = call ptr @taken_at(ptr %e, i64 %seat)
  %taken = load atomic i64, ptr %taken.at monotonic, align 8
  %is.free = icmp eq i64 %taken, 0
  %bit = call i32 @bit_of(i64 %seat)
  %free.bit = select i1 %is.free, i32 %bit, i32 0
  %mask.then = or i32 %mask, %free.bit
  %seat.then = add i64 %seat, 1
  %is.more = icmp ult i64 %seat.then, %width
  br i1 %is.more, label %look, label %done
done:
  ret i32 %mask.then
}

define internal i32 @bit_of(i64 %seat) {
  %narrow = trunc i64 %seat to i32
  %place = and i32 %narrow, 31
  %bit = shl i32 1, %place
  ret i32 %bit
}

; Take a seat; false if it is taken.
define internal i1 @take(ptr %e, i64 %seat) {
  %taken.at = call ptr @taken_at(ptr %e, i64 %seat)
  %exchanged = cmpxchg ptr %taken.at, i64 0, i64 1 seq_cst seq_cst
  %won = extractvalue { i64, i1 } %exchanged, 1
  ret i1 %won
}

define internal void @leave(ptr %e, i64 %seat) {
  %taken.at = call ptr @taken_at(ptr %e, i64 %seat)
  store atomic i64 0, ptr %taken.at seq_cst, align 8
  ret void
}

; Leave a seat that its worker may have found taken: wake it if there is work.
define internal void @hand_over(ptr %e, i64 %seat) {
  call void @leave(ptr %e, i64 %seat)
  %bit = call i32 @bit_of(i64 %seat)
  call void @wake(ptr %e, i32 %bit)
  ret void
}

; If there is work, wake the workers of seats whose bits are set.
define internal void @wake(ptr %e, i32 %mask) {
entry:
  %busy.at = getelementptr i64, ptr %e, i64 18
  %generation.at = getelementptr i64, ptr %e, i64 32
  %busy = load atomic i64, ptr %busy.at seq_cst, align 8
  %is.idle = icmp eq i64 %busy, 0
  br i1 %is.idle, label %done, label %unpark
unpark:
  %generation = atomicrmw add ptr %generation.at, i32 1 seq_cst
  call void @unpark(ptr %generation.at, i32 2147483647, i32 %mask)
  br label %done
done:
  ret void
}

; A worker with its seat: returns when `stop` is set.
define void @work(ptr %e, i64 %seat) {
entry:
  %generation.at = getelementptr i64, ptr %e, i64 32
  %sleepers.at = getelementptr i64, ptr %e, i64 33
  %spins.at = getelementptr i64, ptr %e, i64 49
  %stop.at = getelementptr i64, ptr %e, i64 50
  %spins = load i64, ptr %spins.at, align 8
  %bit = call i32 @bit_of(i64 %seat)
  br label %arrive
arrive:
  %generation = load atomic i32, ptr %generation.at seq_cst, align 8
  %stop = load atomic i64, ptr %stop.at seq_cst, align 8
  %shall.end = icmp ne i64 %stop, 0
  br i1 %shall.end, label %end, label %try
try:
  %seated = call i1 @take(ptr %e, i64 %seat)
  br i1 %seated, label %look, label %sleep
look:
  %looks = phi i64 [ 0, %try ], [ 0, %look ], [ %looks.then, %pause ]
  ; Read before looking: what is published after the look makes the sleep below return.
  %generation.now = load atomic i32, ptr %generation.at seq_cst, align 8
  %ran = call i1 @step(ptr %e, i64 %seat)
  br i1 %ran, label %look, label %pause
pause:
  call void @pause()
  %looks.then = add i64 %looks, 1
  %is.patient = icmp ult i64 %looks.then, %spins
  br i1 %is.patient, label %look, label %rest
rest:
  call void @leave(ptr %e, i64 %seat)
  %stop.now = load atomic i64, ptr %stop.at seq_cst, align 8
  %shall.end.now = icmp ne i64 %stop.now, 0
  br i1 %shall.end.now, label %end, label %sleep
sleep:
  %seen = phi i32 [ %generation, %try ], [ %generation.now, %rest ]
  %more = atomicrmw add ptr %sleepers.at, i64 1 seq_cst
  call void @park(ptr %generation.at, i32 %seen, i32 %bit)
  %fewer = atomicrmw sub ptr %sleepers.at, i64 1 seq_cst
  br label %arrive
end:
  ret void
}

; Take the seat of this processor, or where processors have none the last one that is free.
; Return -1 if there is none.
define i64 @sit(ptr %e) {
entry:
  %seat.of = getelementptr i64, ptr %e, i64 2112
  %width.at = getelementptr i64, ptr %e, i64 48
  %width = load i64, ptr %width.at, align 8
  %cpu = call i32 @this_cpu()
  %is.known = icmp ult i32 %cpu, 1024
  br i1 %is.known, label %find, label %any
find:
  %cpu.wide = zext i32 %cpu to i64
  %own.at = getelementptr i64, ptr %seat.of, i64 %cpu.wide
  %own = load i64, ptr %own.at, align 8
  %has.own = icmp sge i64 %own, 0
  br i1 %has.own, label %take.own, label %any
take.own:
  %won = call i1 @take(ptr %e, i64 %own)
  %result = select i1 %won, i64 %own, i64 -1
  ret i64 %result
any:
  %left = phi i64 [ %width, %entry ], [ %width, %find ], [ %seat, %try ]
  %is.none = icmp eq i64 %left, 0
  br i1 %is.none, label %none, label %try
try:
  %seat = sub i64 %left, 1
  %taken = call i1 @take(ptr %e, i64 %seat)
  br i1 %taken, label %done, label %any
done:
  ret i64 %seat
none:
  ret i64 -1
}

; Help on a seat, or sleep where it is -1, until a number of programs are done; the seat is free
; then.  True if they are; else call again: signals may have come, which only Python can treat.
define i32 @wait(ptr %e, i64 %wanted, i64 %seat) {
entry:
  %completed.at = getelementptr i64, ptr %e, i64 25
  %waiters.at = getelementptr i64, ptr %e, i64 34
  %spins.at = getelementptr i64, ptr %e, i64 49
  %spins = load i64, ptr %spins.at, align 8
  %stands = icmp slt i64 %seat, 0
  br i1 %stands, label %sleep, label %look
look:
  %looks = phi i64 [ 0, %entry ], [ 0, %turn ], [ %looks.then, %pause ]
  %turns = phi i64 [ 0, %entry ], [ %turns.then, %turn ], [ %turns, %pause ]
  %completed = load atomic i64, ptr %completed.at acquire, align 8
  %is.done = icmp uge i64 %completed, %wanted
  br i1 %is.done, label %over, label %help
help:
  %ran = call i1 @step(ptr %e, i64 %seat)
  br i1 %ran, label %turn, label %pause
turn:
  %turns.then = add i64 %turns, 1
  %has.time = icmp ult i64 %turns.then, 256
  br i1 %has.time, label %look, label %early
pause:
  call void @pause()
  %looks.then = add i64 %looks, 1
  %is.patient = icmp ult i64 %looks.then, %spins
  br i1 %is.patient, label %look, label %rest
over:
  call void @hand_over(ptr %e, i64 %seat)
  ret i32 1
early:
  call void @hand_over(ptr %e, i64 %seat)
  ret i32 0
rest:
  call void @hand_over(ptr %e, i64 %seat)
  br label %sleep
sleep:
  %more = atomicrmw add ptr %waiters.at, i64 1 seq_cst
  %completed.now = load atomic i64, ptr %completed.at seq_cst, align 8
  %is.now = icmp uge i64 %completed.now, %wanted
  br i1 %is.now, label %awake, label %park
park:
  %seen = trunc i64 %completed.now to i32
  call void @park(ptr %completed.at, i32 %seen, i32 -1)
  br label %awake
awake:
  %fewer = atomicrmw sub ptr %waiters.at, i64 1 seq_cst
  %completed.then = load atomic i64, ptr %completed.at acquire, align 8
  %is.then = icmp uge i64 %completed.then, %wanted
  %result = zext i1 %is.then to i32
  ret i32 %result
}

; Put a program in the ring and return its number, from 1; 0 if the ring is full.  One caller at a
; time.
define i64 @submit(ptr %e, ptr %command, i64 %count) {
  %number = call i64 @put(ptr %e, ptr %command, i64 %count, i64 0)
  ret i64 %number
}

; As `submit` for who has a seat and works on it right after: none is woken for a chunk of his.  To
; wake a thread takes the waker 1 to 25 microseconds, the latter on a virtual machine.
define i64 @submit_seated(ptr %e, ptr %command, i64 %count) {
  %number = call i64 @put(ptr %e, ptr %command, i64 %count, i64 1)
  ret i64 %number
}

define internal i64 @put(ptr %e, ptr %command, i64 %count, i64 %taken) {
entry:
  %busy.at = getelementptr i64, ptr %e, i64 18
  %tail.at = getelementptr i64, ptr %e, i64 19
  %head.at = getelementptr i64, ptr %e, i64 24
  %ring = getelementptr i64, ptr %e, i64 64
  %head = load atomic i64, ptr %head.at monotonic, align 8
  %tail = load atomic i64, ptr %tail.at acquire, align 8
  %waiting = sub i64 %head, %tail
  %is.full = icmp uge i64 %waiting, 1024
  br i1 %is.full, label %full, label %put
put:
  %slot = and i64 %head, 1023
  %word = shl i64 %slot, 1
  %program.at = getelementptr i64, ptr %ring, i64 %word
  %count.at = getelementptr i64, ptr %program.at, i64 1
  store ptr %command, ptr %program.at, align 8
  store i64 %count, ptr %count.at, align 8
  %number = add i64 %head, 1
  store atomic i64 %number, ptr %head.at seq_cst, align 8
  %exchanged = cmpxchg ptr %busy.at, i64 0, i64 1 seq_cst seq_cst
  %was.idle = extractvalue { i64, i1 } %exchanged, 1
  br i1 %was.idle, label %begin, label %done
begin:
  call void @begin_program(ptr %e, i64 %taken)
  br label %done
done:
  ret i64 %number
full:
  ret i64 0
}

; As `submit` for who goes on with something else on this processor: its worker is not woken.
define i64 @submit_aside(ptr %e, ptr %command, i64 %count) {
entry:
  %seat = call i64 @sit(ptr %e)
  %number = call i64 @submit(ptr %e, ptr %command, i64 %count)
  %spins.at = getelementptr i64, ptr %e, i64 49
  %spins = load i64, ptr %spins.at, align 8
  %stands = icmp slt i64 %seat, 0
  br i1 %stands, label %done, label %rise
rise:
  call void @leave(ptr %e, i64 %seat)
  br label %done
done:
  ret i64 %number
}

; Wake every worker that may have something to do.
define void @rouse(ptr %e) {
  %mask = call i32 @free_seats(ptr %e)
  call void @wake(ptr %e, i32 %mask)
  ret void
}

; How many commands so many words are.
define i64 @commands(ptr %first, i64 %words) {
entry:
  br label %next
next:
  %at = phi i64 [ 0, %entry ], [ %at.then, %one ]
  %count = phi i64 [ 0, %entry ], [ %count.then, %one ]
  %is.more = icmp ult i64 %at, %words
  br i1 %is.more, label %one, label %done
one:
  %length = add i64 %at, 4
  %length.at = getelementptr i64, ptr %first, i64 %length
  %its = load i64, ptr %length.at, align 8
  %at.then = add i64 %at, %its
  %count.then = add i64 %count, 1
  br label %next
done:
  ret i64 %count
}

; Tell the workers to end.
define void @stop(ptr %e) {
  %generation.at = getelementptr i64, ptr %e, i64 32
  %stop.at = getelementptr i64, ptr %e, i64 50
  store atomic i64 1, ptr %stop.at seq_cst, align 8
  %generation = atomicrmw add ptr %generation.at, i32 1 seq_cst
  call void @unpark(ptr %generation.at, i32 2147483647, i32 -1)
  ret void
}

; What a command calls to give the next one its grid, which a buffer of three u32 says.  After the
; grid's sizes the slots hold that buffer, the fewest workgroups of a chunk, the most chunks, and the
; function that the next command runs where a count is 0.
define void @count(ptr %slots, i64 %begin, i64 %end) {
entry:
  %counts.at = getelementptr i64, ptr %slots, i64 3
  %fewest.at = getelementptr i64, ptr %slots, i64 4
  %most.at = getelementptr i64, ptr %slots, i64 5
  %nothing.at = getelementptr i64, ptr %slots, i64 6
  %counts = load ptr, ptr %counts.at, align 8
  %fewest = load i64, ptr %fewest.at, align 8
  %most = load i64, ptr %most.at, align 8
  %y.at = getelementptr i32, ptr %counts, i64 1
  %z.at = getelementptr i32, ptr %counts, i64 2
  %x.narrow = load i32, ptr %counts, align 4
  %y.narrow = load i32, ptr %y.at, align 4
  %z.narrow = load i32, ptr %z.at, align 4
  %x = zext i32 %x.narrow to i64
  %y = zext i32 %y.narrow to i64
  %z = zext i32 %z.narrow to i64
  %xy = mul i64 %x, %y
  %count = mul i64 %xy, %z
  %next = getelementptr i64, ptr %slots, i64 7
  %is.none = icmp eq i64 %count, 0
  br i1 %is.none, label %none, label %some
none:
  %nothing = load i64, ptr %nothing.at, align 8
  store i64 %nothing, ptr %next, align 8
  ret void
some:
  %count.less = sub i64 %count, 1
  %even.less = udiv i64 %count.less, %most
  %even = add i64 %even.less, 1
  %chunk = call i64 @llvm.umax.i64(i64 %even, i64 %fewest)
  %chunks.less = udiv i64 %count.less, %chunk
  %chunks = add i64 %chunks.less, 1
  %next.count = getelementptr i64, ptr %next, i64 1
  %next.chunk = getelementptr i64, ptr %next, i64 2
  %next.chunks = getelementptr i64, ptr %next, i64 3
  %next.x = getelementptr i64, ptr %next, i64 5
  %next.y = getelementptr i64, ptr %next, i64 6
  %next.z = getelementptr i64, ptr %next, i64 7
  store i64 %count, ptr %next.count, align 8
  store i64 %chunk, ptr %next.chunk, align 8
  store i64 %chunks, ptr %next.chunks, align 8
  store i64 %x, ptr %next.x, align 8
  store i64 %y, ptr %next.y, align 8
  store i64 %z, ptr %next.z, align 8
  ret void
}

; What a command runs that has no workgroups after all.
define void @nothing(ptr %slots, i64 %begin, i64 %end) {
  ret void
}

; What a command calls to copy bytes: after the grid's sizes the slots hold target, source, count.  A
; workgroup is a mebibyte.
define void @copy(ptr %slots, i64 %begin, i64 %end) {
  %target.at = getelementptr i64, ptr %slots, i64 3
  %source.at = getelementptr i64, ptr %slots, i64 4
  %count.at = getelementptr i64, ptr %slots, i64 5
  %target = load ptr, ptr %target.at, align 8
  %source = load ptr, ptr %source.at, align 8
  %count = load i64, ptr %count.at, align 8
  %first = shl i64 %begin, 20
  %past.whole = shl i64 %end, 20
  %past = call i64 @llvm.umin.i64(i64 %past.whole, i64 %count)
  %size = sub i64 %past, %first
  %to = getelementptr i8, ptr %target, i64 %first
  %from = getelementptr i8, ptr %source, i64 %first
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
  ret void
}
