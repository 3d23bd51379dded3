; A call of one op on a GPU that was recorded: what Python would do for it, from the look-up to the
; launches that wait for the next submission.
;
; `execute` is a function of CPython's (METH_FASTCALL): self is the bytes of %Calls, its arguments are an
; op, the list of its inputs, and its plan.  Where anything is not as in most calls it gives back what it
; took and calls the Python that does the same, `slow`: also where a set of buffers was not bound before,
; and where no storage is free.  It is called with the GIL, takes the lock of the runtime, and calls no
; Python on its way but `go_on`, after the lock.
;
; `again` has the same table but for `slow`.
;
; Functions of objects stand in `objects.ll`, those that calls on all devices have in `calls.ll`, those of
; memory in `storages.ll`, of launches in `launches.ll`.  An object of a list, a dict or a slot is borrowed
; unless it says "owned".

; A call has at most 8 inputs, and 24 values: inputs that are tensors, buffers that are lent, numbers.  It
; has at most 4 launches, of at most 8 buffers and 8 numbers that vary.

%Calls = type {
  [20 x ptr], ; functions of the C API as in the table of `cpu`
  ; Objects.
  ptr, ; 20 None
  ptr, ; 21 list
  ptr, ; 22 float
  ptr, ; 23 int
  ptr, ; 24 the class of tensors
  ptr, ; 25 the class of numbers
  ptr, ; 26 the class of replays that have a state
  ptr, ; 27 the class of buffers
  ptr, ; 28 the class of contents
  ptr, ; 29 the class of leases
  ptr, ; 30 a list that is empty unless somebody listens
  ptr, ; 31 the cache of replays
  ptr, ; 32 slow
  ptr, ; 33 the class of ends of leases
  ptr, ; 34 the class of bound launches
  ptr, ; 35 heappop
  ptr, ; 36 heappush
  ptr, ; 37 what takes the lock of the runtime, and
  ptr, ; 38 what gives it back
  ptr, ; 39 the queue
  ptr, ; 40 go_on
  ptr, ; 41 the life of the device
  ; Bytes from the beginning of an object to its slots.
  i64, ; 42 any object: its class
  i64, ; 43 a tensor: buffer
  i64, ; 44 type
  i64, ; 45 strides
  i64, ; 46 offset
  i64, ; 47 layout
  i64, ; 48 doubt
  i64, ; 49 a number: value
  i64, ; 50 a replay: state
  i64, ; 51 a buffer: lease
  i64, ; 52 contents
  i64, ; 53 offset
  i64, ; 54 nbytes
  i64, ; 55 key
  i64, ; 56 a lease: contents
  i64, ; 57 nbytes
  i64, ; 58 origin
  i64, ; 59 a cache: the dict in it
  i64, ; 60 contents: storage
  i64, ; 61 error
  i64, ; 62 gone
  i64, ; 63 an end of a lease: storage
  i64, ; 64 a storage: serial
  i64, ; 65 capacity
  i64, ; 66 is_free
  i64, ; 67 is_listed
  i64, ; 68 last_use
  i64, ; 69 home
  i64, ; 70 whole
  i64, ; 71 the queue: pending
  i64, ; 72 a submission: commands
  i64, ; 73 size
  i64, ; 74 number
  i64, ; 75 a bound launch: of
  i64, ; 76 group
  i64, ; 77 row
  i64, ; 78 touched
  i64, ; 79 a life: failure
  i64, ; 80 the pace: due
  ; More objects.
  ptr, ; 81 True
  ptr, ; 82 False
  ptr, ; 83 0
  ptr, ; 84 the dict of leases by serial
  ptr, ; 85 the queue of leases that ended
  ptr, ; 86 its popleft
  ptr, ; 87 its append
  ptr, ; 88 the pace
  ptr, ; 89 the device of wgpu-py's
  ptr, ; 90 the names of two attributes that it
  ptr, ; 91 has as long as it is not destroyed
  ptr, ; 92 a list that is empty as long as no application has storages in hand
  ; Addresses.
  ptr, ; 93 bytes in use, and at most
  ptr, ; 94 how many launches were made here
  ptr, ; 95 PyDict_DelItem
  ptr, ; 96 PyTuple_GetItem
  ptr, ; 97 PyLong_FromLongLong
  ptr, ; 98 PyDict_SetItem
  i64  ; 99 after so many commands `go_on` is called
}

; The state of a replay, before its %Lent, %Number and %Step.
%State = type {
  i64, ; 0 how many buffers are lent
  i64, ; 1 how many inputs are numbers
  i64, ; 2 how many launches there are; 0 where the result is a view
  i64, ; 3 the value that is the buffer of the result
  [4 x ptr] ; 4 of the result: type, strides, offset, layout
}
; The free storages of the size, and the bytes.
%Lent = type { ptr, ptr }
; Which input, and as what: 0 float32, 1 float64, 2 int32, 3 int64, 4 uint32.
%Number = type { i64, i64 }
; The byte of a row, which value goes there, and its bytes.
%Word = type { i64, i64, i64 }
; What is launched, what it is bound to by the keys of its buffers, which values these are, and words.
%Step = type { ptr, ptr, i64, [8 x i64], i64, [8 x %Word] }

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal ptr @part(ptr %c, ptr %tuple, i64 %n) {
  %f = call ptr @field(ptr %c, i64 96)
  %part = call ptr %f(ptr %tuple, i64 %n)
  ret ptr %part
}

; Write the word of a number, as float32 and so on; false for one that Python has to look at.
define internal i1 @numbered(ptr %c, ptr %object, i64 %kind, ptr %word) {
  %value = call ptr @slot(ptr %c, i32 49, ptr %object)
  %floats = call ptr @field(ptr %c, i64 22)
  %integers = call ptr @field(ptr %c, i64 23)
  %is.written = call i1 @number_word(
    ptr %c, ptr %value, ptr %floats, ptr %integers, i64 %kind, ptr %word)
  ret i1 %is.written
}

; Owned.
define internal ptr @tuple(ptr %c, i64 %count) {
  %f = call ptr @field(ptr %c, i64 5)
  %tuple = call ptr %f(i64 %count)
  ret ptr %tuple
}

; Put an object, which is held then, into a new tuple.
define internal void @fill(ptr %c, ptr %tuple, i64 %n, ptr %object) {
  %f = call ptr @field(ptr %c, i64 6)
  call void @hold(ptr %c, ptr %object)
  %done = call i32 %f(ptr %tuple, i64 %n, ptr %object)
  ret void
}

; Put an object, which is held then, into a slot in the place of another.
define internal void @set(ptr %c, i32 %field, ptr %object, ptr %value) {
  call void @hold(ptr %c, ptr %value)
  call void @replace(ptr %c, i32 %field, ptr %object, ptr %value)
  ret void
}

define internal i1 @is_true(ptr %c, i32 %field, ptr %object) {
  %value = call ptr @slot(ptr %c, i32 %field, ptr %object)
  %yes = call ptr @field(ptr %c, i64 81)
  %is = icmp eq ptr %value, %yes
  ret i1 %is
}

define ptr @execute(ptr %self, ptr %arguments, i64 %given) {
entry:
  %layouts = alloca [8 x ptr], align 8
  %buffers = alloca [24 x ptr], align 8
  %values = alloca [24 x i64], align 8
  ; Where the bytes of a bytes object begin, `native_call.py` has found out, and puts it here.
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %none = call ptr @field(ptr %c, i64 20)
  %list.class = call ptr @field(ptr %c, i64 21)
  %tensor.class = call ptr @field(ptr %c, i64 24)
  %number.class = call ptr @field(ptr %c, i64 25)
  %buffer.class = call ptr @field(ptr %c, i64 27)
  %are.three = icmp eq i64 %given, 3
  br i1 %are.three, label %asks, label %slowly
asks:
  %inputs.at = getelementptr ptr, ptr %arguments, i64 1
  %inputs = load ptr, ptr %inputs.at, align 8
  %plan.at = getelementptr ptr, ptr %arguments, i64 2
  %plan = load ptr, ptr %plan.at, align 8
  %listeners = call ptr @field(ptr %c, i64 30)
  %listening = call i64 @size_of(ptr %c, ptr %listeners)
  %is.quiet = icmp eq i64 %listening, 0
  %lends = call ptr @field(ptr %c, i64 92)
  %lending = call i64 @size_of(ptr %c, ptr %lends)
  %is.own = icmp eq i64 %lending, 0
  %inputs.class = call ptr @class_of(ptr %c, ptr %inputs)
  %is.list = icmp eq ptr %inputs.class, %list.class
  %is.usual = and i1 %is.quiet, %is.own
  %may.go = and i1 %is.usual, %is.list
  br i1 %may.go, label %look, label %slowly
look:
  %count = call i64 @size_of(ptr %c, ptr %inputs)
  %is.short = icmp sle i64 %count, 8
  br i1 %is.short, label %next, label %slowly

  ; Inputs: the layouts and buffers of tensors, and one doubt of all.
next:
  %n = phi i64 [ 0, %look ], [ %n.then, %noted ]
  %tensors = phi i64 [ 0, %look ], [ %tensors.then, %noted ]
  %doubt = phi ptr [ %none, %look ], [ %doubt.then, %noted ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %input, label %key
input:
  %x = call ptr @item(ptr %c, ptr %inputs, i64 %n)
  %class = call ptr @class_of(ptr %c, ptr %x)
  %is.tensor = icmp eq ptr %class, %tensor.class
  br i1 %is.tensor, label %tensor, label %other
other:
  %is.number = icmp eq ptr %class, %number.class
  %is.none = icmp eq ptr %x, %none
  %is.known.kind = or i1 %is.number, %is.none
  br i1 %is.known.kind, label %noted, label %slowly
tensor:
  %layout = call ptr @slot(ptr %c, i32 47, ptr %x)
  %layout.number = call i64 @integer_of(ptr %c, ptr %layout)
  %is.asked = icmp ne i64 %layout.number, 0
  br i1 %is.asked, label %buffer, label %slowly
buffer:
  %its.buffer = call ptr @slot(ptr %c, i32 43, ptr %x)
  %its.class = call ptr @class_of(ptr %c, ptr %its.buffer)
  %is.known.class = icmp eq ptr %its.class, %buffer.class
  br i1 %is.known.class, label %doubts, label %slowly
doubts:
  %its.doubt = call ptr @slot(ptr %c, i32 48, ptr %x)
  %has.none = icmp eq ptr %its.doubt, %none
  %has.this = icmp eq ptr %its.doubt, %doubt
  %is.first = icmp eq ptr %doubt, %none
  %one.of.1 = or i1 %has.none, %has.this
  %one.of.2 = or i1 %one.of.1, %is.first
  %doubt.now = select i1 %has.none, ptr %doubt, ptr %its.doubt
  br i1 %one.of.2, label %note, label %slowly
note:
  %layout.to = getelementptr ptr, ptr %layouts, i64 %tensors
  store ptr %layout, ptr %layout.to, align 8
  %buffer.to = getelementptr ptr, ptr %buffers, i64 %tensors
  store ptr %its.buffer, ptr %buffer.to, align 8
  %tensors.more = add i64 %tensors, 1
  br label %noted
noted:
  %tensors.then = phi i64 [ %tensors, %other ], [ %tensors.more, %note ]
  %doubt.then = phi ptr [ %doubt, %other ], [ %doubt.now, %note ]
  %n.then = add i64 %n, 1
  br label %next

  ; What is known of such a call.
key:
  %replay = call ptr @found(ptr %c, ptr %plan, ptr %layouts, i64 %tensors)
  %is.missing = icmp eq ptr %replay, null
  br i1 %is.missing, label %slowly, label %known
known:
  %replay.class = call ptr @class_of(ptr %c, ptr %replay)
  %replays = call ptr @field(ptr %c, i64 26)
  %has.state = icmp eq ptr %replay.class, %replays
  br i1 %has.state, label %state, label %unfit
state:
  %state.bytes = call ptr @slot(ptr %c, i32 50, ptr %replay)
  %is.unset = icmp eq ptr %state.bytes, %none
  br i1 %is.unset, label %unfit, label %fit
fit:
  %s = call ptr @bytes_of(ptr %c, ptr %state.bytes)
  %lends.count = load i64, ptr %s, align 8
  %numbers.at = getelementptr %State, ptr %s, i64 0, i32 1
  %numbers = load i64, ptr %numbers.at, align 8
  %steps.at = getelementptr %State, ptr %s, i64 0, i32 2
  %steps = load i64, ptr %steps.at, align 8
  %result.at = getelementptr %State, ptr %s, i64 0, i32 3
  %result.of = load i64, ptr %result.at, align 8
  %view = getelementptr %State, ptr %s, i64 0, i32 4
  %first.lent = getelementptr %State, ptr %s, i64 1
  %first.number = getelementptr %Lent, ptr %first.lent, i64 %lends.count
  %first.step = getelementptr %Number, ptr %first.number, i64 %numbers
  %made.count = add i64 %tensors, %lends.count
  br label %next.number

  ; Numbers, before anything is done.
next.number:
  %i = phi i64 [ 0, %fit ], [ %i.then, %numbered.one ]
  %is.number.left = icmp slt i64 %i, %numbers
  br i1 %is.number.left, label %number, label %has.numbers
number:
  %position.at = getelementptr %Number, ptr %first.number, i64 %i, i32 0
  %position = load i64, ptr %position.at, align 8
  %kind.at = getelementptr %Number, ptr %first.number, i64 %i, i32 1
  %kind = load i64, ptr %kind.at, align 8
  %number.object = call ptr @item(ptr %c, ptr %inputs, i64 %position)
  %number.place = add i64 %made.count, %i
  %number.to = getelementptr i64, ptr %values, i64 %number.place
  %is.written = call i1 @numbered(ptr %c, ptr %number.object, i64 %kind, ptr %number.to)
  br i1 %is.written, label %numbered.one, label %unfit
numbered.one:
  %i.then = add i64 %i, 1
  br label %next.number
has.numbers:
  %is.view = icmp eq i64 %steps, 0
  br i1 %is.view, label %make, label %ask.works
ask.works:
  %is.working = call i1 @works(ptr %c)
  br i1 %is.working, label %lock, label %unfit
lock:
  %is.locked = call i1 @locked(ptr %c)
  br i1 %is.locked, label %next.lent, label %unfit

  ; Buffers.
next.lent:
  %j = phi i64 [ 0, %lock ], [ %j.then, %got ]
  %is.lent.left = icmp slt i64 %j, %lends.count
  br i1 %is.lent.left, label %lend, label %launch
lend:
  %wanted = getelementptr %Lent, ptr %first.lent, i64 %j
  %new = call ptr @lent(ptr %c, ptr %wanted)
  %no.new = icmp eq ptr %new, null
  br i1 %no.new, label %give.back, label %got
got:
  %new.place = add i64 %tensors, %j
  %new.to = getelementptr ptr, ptr %buffers, i64 %new.place
  store ptr %new, ptr %new.to, align 8
  %j.then = add i64 %j, 1
  br label %next.lent
launch:
  %is.launched = call i32 @launched(ptr %c, ptr %first.step, i64 %steps, ptr %buffers, ptr %values)
  switch i32 %is.launched, label %failed.locked [ i32 0, label %unlocked i32 1, label %give.back ]
unlocked:
  call void @unlock(ptr %c)
  %went.on = call i1 @gone_on(ptr %c)
  br i1 %went.on, label %make, label %failed
failed.locked:
  call void @unlock(ptr %c)
  br label %failed
make:
  %made.lends = phi i64 [ 0, %has.numbers ], [ %j, %unlocked ]
  %of.at = getelementptr ptr, ptr %buffers, i64 %result.of
  %of = load ptr, ptr %of.at, align 8
  %tuple = call ptr @result(ptr %c, ptr %view, ptr %of, ptr %doubt)
  br label %clean
failed:
  br label %clean
clean:
  %left = phi i64 [ %made.lends, %make ], [ %j, %failed ]
  %out = phi ptr [ %tuple, %make ], [ null, %failed ]
  %left.end = add i64 %tensors, %left
  call void @drop_all(ptr %c, ptr %buffers, i64 %tensors, i64 %left.end)
  call void @drop(ptr %c, ptr %replay)
  ret ptr %out

give.back:
  %lent.end = add i64 %tensors, %j
  call void @drop_all(ptr %c, ptr %buffers, i64 %tensors, i64 %lent.end)
  call void @unlock(ptr %c)
  br label %unfit
unfit:
  call void @drop(ptr %c, ptr %replay)
  br label %slowly
slowly:
  %slow = call ptr @field(ptr %c, i64 32)
  %slow.result = call ptr @called(ptr %c, ptr %slow, ptr %arguments, i64 %given)
  ret ptr %slow.result
}
