; A call of one op that was recorded: what Python would do for it, from the look-up to the result.
;
; `execute` is a function of CPython's (METH_FASTCALL): self is the bytes of %Calls, its arguments
; are an op, the list of its inputs, and its plan.  Where anything is not as in most calls it does
; nothing and calls the Python that does the same, `slow`.  It is called with the GIL, and calls no
; Python on its way but `hand_over` and, where the pool has no buffer, `lend`.
;
; Objects are read and written where `native_call.py` has found their slots; all else is done by
; functions of CPython's C API.  An object of a list, a dict or a slot is borrowed unless it says
; "owned".

; A call has at most 8 inputs, and 24 values: the addresses of its tensors, those of the buffers that
; are lent, and its numbers.

%Calls = type {
  ; Functions of the C API.
  ptr, ;  0 Py_IncRef
  ptr, ;  1 Py_DecRef
  ptr, ;  2 PyBytes_AsString
  ptr, ;  3 PyList_Size
  ptr, ;  4 PyList_GetItem
  ptr, ;  5 PyTuple_New
  ptr, ;  6 PyTuple_SetItem
  ptr, ;  7 PyObject_GetAttr
  ptr, ;  8 PyDict_GetItemWithError
  ptr, ;  9 PyObject_Size
  ptr, ; 10 PyList_New
  ptr, ; 11 PyObject_Vectorcall
  ptr, ; 12 PyType_GenericAlloc
  ptr, ; 13 PyErr_Clear
  ptr, ; 14 PyBytes_FromStringAndSize
  ptr, ; 15 PyLong_AsLongLong
  ptr, ; 16 PyList_Append
  ptr, ; 17 PyFloat_AsDouble
  ptr, ; 18 PyList_SetItem
  ptr, ; 19 PyErr_Occurred
  ; Objects.
  ptr, ; 20 None
  ptr, ; 21 list
  ptr, ; 22 float
  ptr, ; 23 int
  ptr, ; 24 the class of tensors
  ptr, ; 25 the class of numbers
  ptr, ; 26 the class of replays that have a state
  ptr, ; 27 the class of buffers
  ptr, ; 28 the class of parts of buffers
  ptr, ; 29 the class of leases
  ptr, ; 30 a list that is empty unless somebody listens
  ptr, ; 31 the cache of replays
  ptr, ; 32 slow
  ptr, ; 33 bytes that are pending in the stream and, in the next word, their work
  ptr, ; 34 its list of launches that were added
  ptr, ; 35 hand_over
  ptr, ; 36 lend
  ptr, ; 37 the executor
  ptr, ; 38 programs submitted and, in the next word, done
  ; Numbers.
  double, ; 39 nanoseconds of work that are handed over
  i64, ; 40 bytes that are handed over behind others
  i64, ; 41 bytes that are handed over in any case
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
  i64, ; 51 a buffer: block
  i64, ; 52 address
  i64, ; 53 nbytes
  i64, ; 54 origin
  i64, ; 55 a part: offset
  i64, ; 56 a lease: block
  i64, ; 57 a block: address
  i64, ; 58 lease
  i64, ; 59 a cache: the dict in it
  i64, ; 60 the executor: why it is closed
  i64  ; 61 a part: base
}

; The state of a replay, before its %Lent, %Number and %Word.
%State = type {
  i64, ; 0 how many buffers are lent
  i64, ; 1 how many inputs are numbers
  i64, ; 2 how many words of the launches are given; 0 where nothing is launched
  i64, ; 3 the value that is the buffer of the result
  ptr, ; 4 the launches
  i64, ; 5 their bytes
  double, ; 6 nanoseconds of work
  ptr, ; 7 of the result: type
  ptr, ; 8 strides
  ptr, ; 9 offset
  ptr  ; 10 layout
}
; The queue of leases that ended, its pop and its append, bytes, and the size class.
%Lent = type { ptr, ptr, ptr, ptr, ptr }
; Which input, and as what: 0 float32, 1 float64, 2 int32, 3 int64, 4 uint32.
%Number = type { i64, i64 }
; A word of the launches, and which value it is.
%Word = type { i64, i64 }

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; ---- what a call does ----

; The address of a buffer, or 0 where it is of a class that is not known here.
define internal i64 @address_of(ptr %c, ptr %buffer) {
entry:
  %class = call ptr @class_of(ptr %c, ptr %buffer)
  %whole.at = getelementptr %Calls, ptr %c, i64 0, i32 27
  %whole.class = load ptr, ptr %whole.at, align 8
  %part.at = getelementptr %Calls, ptr %c, i64 0, i32 28
  %part.class = load ptr, ptr %part.at, align 8
  %is.whole = icmp eq ptr %class, %whole.class
  br i1 %is.whole, label %known, label %other
other:
  %is.part = icmp eq ptr %class, %part.class
  br i1 %is.part, label %part, label %unknown
part:
  %base = call ptr @slot(ptr %c, i32 61, ptr %buffer)
  %offset.number = call ptr @slot(ptr %c, i32 55, ptr %buffer)
  %offset = call i64 @integer_of(ptr %c, ptr %offset.number)
  %base.class = call ptr @class_of(ptr %c, ptr %base)
  %is.usual = icmp eq ptr %base.class, %whole.class
  br i1 %is.usual, label %known, label %unknown
known:
  %whole = phi ptr [ %buffer, %entry ], [ %base, %part ]
  %after = phi i64 [ 0, %entry ], [ %offset, %part ]
  %number = call ptr @slot(ptr %c, i32 52, ptr %whole)
  %begin = call i64 @integer_of(ptr %c, ptr %number)
  %address = add i64 %begin, %after
  ret i64 %address
unknown:
  ret i64 0
}

; Owned: a buffer of a %Lent, by `Allocator.lend` where none waits to be used again.
define internal ptr @lent(ptr %c, ptr %wanted) {
entry:
  %arguments = alloca [2 x ptr], align 8
  %second.at = getelementptr [2 x ptr], ptr %arguments, i64 0, i64 1
  %ended = load ptr, ptr %wanted, align 8
  %pop.at = getelementptr %Lent, ptr %wanted, i64 0, i32 1
  %pop = load ptr, ptr %pop.at, align 8
  %end.at = getelementptr %Lent, ptr %wanted, i64 0, i32 2
  %end = load ptr, ptr %end.at, align 8
  %nbytes.at = getelementptr %Lent, ptr %wanted, i64 0, i32 3
  %nbytes = load ptr, ptr %nbytes.at, align 8
  %count = call i64 @size_of(ptr %c, ptr %ended)
  %is.some = icmp sgt i64 %count, 0
  br i1 %is.some, label %take, label %ask
ask:
  %of.at = getelementptr %Lent, ptr %wanted, i64 0, i32 4
  %of = load ptr, ptr %of.at, align 8
  store ptr %of, ptr %arguments, align 8
  store ptr %nbytes, ptr %second.at, align 8
  %lend.at = getelementptr %Calls, ptr %c, i64 0, i32 36
  %lend = load ptr, ptr %lend.at, align 8
  %asked = call ptr @called(ptr %c, ptr %lend, ptr %arguments, i64 2)
  ret ptr %asked
take:
  %before = call ptr @called(ptr %c, ptr %pop, ptr null, i64 0)
  %failed = icmp eq ptr %before, null
  br i1 %failed, label %none, label %use
use:
  %block = call ptr @slot(ptr %c, i32 56, ptr %before)
  %buffer.at = getelementptr %Calls, ptr %c, i64 0, i32 27
  %buffer.class = load ptr, ptr %buffer.at, align 8
  %buffer = call ptr @made(ptr %c, ptr %buffer.class)
  %no.buffer = icmp eq ptr %buffer, null
  br i1 %no.buffer, label %lost, label %fill
fill:
  %address = call ptr @slot(ptr %c, i32 57, ptr %block)
  %none.at = getelementptr %Calls, ptr %c, i64 0, i32 20
  %nothing = load ptr, ptr %none.at, align 8
  call void @put(ptr %c, i32 51, ptr %buffer, ptr %block)
  call void @put(ptr %c, i32 52, ptr %buffer, ptr %address)
  call void @put(ptr %c, i32 53, ptr %buffer, ptr %nbytes)
  call void @put(ptr %c, i32 54, ptr %buffer, ptr %nothing)
  store ptr %buffer, ptr %arguments, align 8
  store ptr %end, ptr %second.at, align 8
  %lease.at = getelementptr %Calls, ptr %c, i64 0, i32 29
  %lease.class = load ptr, ptr %lease.at, align 8
  %lease = call ptr @called(ptr %c, ptr %lease.class, ptr %arguments, i64 2)
  %no.lease = icmp eq ptr %lease, null
  br i1 %no.lease, label %lost.buffer, label %leased
leased:
  call void @put(ptr %c, i32 56, ptr %lease, ptr %block)
  call void @replace(ptr %c, i32 58, ptr %block, ptr %lease)
  call void @drop(ptr %c, ptr %before)
  ret ptr %buffer
lost.buffer:
  call void @drop(ptr %c, ptr %buffer)
  br label %lost
lost:
  call void @drop(ptr %c, ptr %before)
  br label %none
none:
  ret ptr null
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

; Owned: the bytes of the launches; null where there is no room.
define internal ptr @written(ptr %c, ptr %s, ptr %words, ptr %values) {
entry:
  %template.at = getelementptr %State, ptr %s, i64 0, i32 4
  %template = load ptr, ptr %template.at, align 8
  %size.at = getelementptr %State, ptr %s, i64 0, i32 5
  %size = load i64, ptr %size.at, align 8
  %count.at = getelementptr %State, ptr %s, i64 0, i32 2
  %count = load i64, ptr %count.at, align 8
  %new.at = getelementptr %Calls, ptr %c, i64 0, i32 14
  %new = load ptr, ptr %new.at, align 8
  %bytes = call ptr %new(ptr null, i64 %size)
  %no.bytes = icmp eq ptr %bytes, null
  br i1 %no.bytes, label %done, label %write
write:
  %to = call ptr @bytes_of(ptr %c, ptr %bytes)
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %template, i64 %size, i1 false)
  br label %next
next:
  %n = phi i64 [ 0, %write ], [ %then, %word ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %word, label %done
word:
  %place.at = getelementptr %Word, ptr %words, i64 %n, i32 0
  %place = load i64, ptr %place.at, align 8
  %which.at = getelementptr %Word, ptr %words, i64 %n, i32 1
  %which = load i64, ptr %which.at, align 8
  %value.at = getelementptr i64, ptr %values, i64 %which
  %value = load i64, ptr %value.at, align 8
  %put.at = getelementptr i64, ptr %to, i64 %place
  store i64 %value, ptr %put.at, align 1
  %then = add i64 %n, 1
  br label %next
done:
  ret ptr %bytes
}

; Do as `Stream.extend`; false where an error was raised.
define internal i1 @launched(ptr %c, ptr %s, ptr %words, ptr %values) {
entry:
  %bytes = call ptr @written(ptr %c, ptr %s, ptr %words, ptr %values)
  %no.bytes = icmp eq ptr %bytes, null
  br i1 %no.bytes, label %raised, label %append
append:
  %added.at = getelementptr %Calls, ptr %c, i64 0, i32 34
  %added = load ptr, ptr %added.at, align 8
  %append.at = getelementptr %Calls, ptr %c, i64 0, i32 16
  %append.to = load ptr, ptr %append.at, align 8
  %failed = call i32 %append.to(ptr %added, ptr %bytes)
  call void @drop(ptr %c, ptr %bytes)
  %not.appended = icmp ne i32 %failed, 0
  br i1 %not.appended, label %raised, label %weigh
weigh:
  %totals.at = getelementptr %Calls, ptr %c, i64 0, i32 33
  %totals = load ptr, ptr %totals.at, align 8
  %more.at = getelementptr %State, ptr %s, i64 0, i32 5
  %more = load i64, ptr %more.at, align 8
  %size.was = load i64, ptr %totals, align 8
  %size = add i64 %size.was, %more
  store i64 %size, ptr %totals, align 8
  %work.at = getelementptr i64, ptr %totals, i64 1
  %its.at = getelementptr %State, ptr %s, i64 0, i32 6
  %its = load double, ptr %its.at, align 8
  %work.was = load double, ptr %work.at, align 8
  %work = fadd double %work.was, %its
  store double %work, ptr %work.at, align 8
  %together.at = getelementptr %Calls, ptr %c, i64 0, i32 39
  %together = load double, ptr %together.at, align 8
  %behind.at = getelementptr %Calls, ptr %c, i64 0, i32 40
  %behind = load i64, ptr %behind.at, align 8
  %most.at = getelementptr %Calls, ptr %c, i64 0, i32 41
  %most = load i64, ptr %most.at, align 8
  %programs.at = getelementptr %Calls, ptr %c, i64 0, i32 38
  %programs = load ptr, ptr %programs.at, align 8
  %done.at = getelementptr i64, ptr %programs, i64 1
  %submitted = load atomic i64, ptr %programs seq_cst, align 8
  %completed = load atomic i64, ptr %done.at seq_cst, align 8
  %is.much = fcmp oge double %work, %together
  %are.many = icmp sge i64 %size, %behind
  %is.idle = icmp eq i64 %submitted, %completed
  %is.time = or i1 %are.many, %is.idle
  %is.both = and i1 %is.much, %is.time
  %is.full = icmp sge i64 %size, %most
  %is.over = or i1 %is.both, %is.full
  br i1 %is.over, label %hand, label %done
hand:
  %hand.at = getelementptr %Calls, ptr %c, i64 0, i32 35
  %hand.over = load ptr, ptr %hand.at, align 8
  %handed = call ptr @called(ptr %c, ptr %hand.over, ptr null, i64 0)
  %not.handed = icmp eq ptr %handed, null
  br i1 %not.handed, label %raised, label %drop.it
drop.it:
  call void @drop(ptr %c, ptr %handed)
  br label %done
done:
  ret i1 true
raised:
  ret i1 false
}

; Whether the executor runs; where not, Python says why.
define internal i1 @is_open(ptr %c) {
  %executor.at = getelementptr %Calls, ptr %c, i64 0, i32 37
  %executor = load ptr, ptr %executor.at, align 8
  %none.at = getelementptr %Calls, ptr %c, i64 0, i32 20
  %none = load ptr, ptr %none.at, align 8
  %why = call ptr @slot(ptr %c, i32 60, ptr %executor)
  %is.open = icmp eq ptr %why, %none
  ret i1 %is.open
}

define ptr @execute(ptr %self, ptr %arguments, i64 %given) {
entry:
  %layouts = alloca [8 x ptr], align 8
  %buffers = alloca [24 x ptr], align 8
  %values = alloca [24 x i64], align 8
  ; Where the bytes of a bytes object begin, `native_call.py` has found out, and puts it here.
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %list.size.at = getelementptr %Calls, ptr %c, i64 0, i32 3
  %list.size = load ptr, ptr %list.size.at, align 8
  %none.at = getelementptr %Calls, ptr %c, i64 0, i32 20
  %none = load ptr, ptr %none.at, align 8
  %list.at = getelementptr %Calls, ptr %c, i64 0, i32 21
  %list.class = load ptr, ptr %list.at, align 8
  %tensor.at = getelementptr %Calls, ptr %c, i64 0, i32 24
  %tensor.class = load ptr, ptr %tensor.at, align 8
  %number.at = getelementptr %Calls, ptr %c, i64 0, i32 25
  %number.class = load ptr, ptr %number.at, align 8
  %are.three = icmp eq i64 %given, 3
  br i1 %are.three, label %asks, label %slowly
asks:
  %inputs.at = getelementptr ptr, ptr %arguments, i64 1
  %inputs = load ptr, ptr %inputs.at, align 8
  %plan.at = getelementptr ptr, ptr %arguments, i64 2
  %plan = load ptr, ptr %plan.at, align 8
  %listeners.at = getelementptr %Calls, ptr %c, i64 0, i32 30
  %listeners = load ptr, ptr %listeners.at, align 8
  %listening = call i64 %list.size(ptr %listeners)
  %is.quiet = icmp eq i64 %listening, 0
  %inputs.class = call ptr @class_of(ptr %c, ptr %inputs)
  %is.list = icmp eq ptr %inputs.class, %list.class
  %may.go = and i1 %is.quiet, %is.list
  br i1 %may.go, label %look, label %slowly
look:
  %count = call i64 %list.size(ptr %inputs)
  %is.short = icmp sle i64 %count, 8
  br i1 %is.short, label %next, label %slowly

  ; Inputs: the layouts and buffers of tensors, the addresses of these, and one doubt of all.
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
  %address = call i64 @address_of(ptr %c, ptr %its.buffer)
  %is.known.class = icmp ne i64 %address, 0
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
  %value.to = getelementptr i64, ptr %values, i64 %tensors
  store i64 %address, ptr %value.to, align 8
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
  %replays.at = getelementptr %Calls, ptr %c, i64 0, i32 26
  %replays = load ptr, ptr %replays.at, align 8
  %has.state = icmp eq ptr %replay.class, %replays
  br i1 %has.state, label %state, label %unfit
state:
  %state.bytes = call ptr @slot(ptr %c, i32 50, ptr %replay)
  %is.unset = icmp eq ptr %state.bytes, %none
  br i1 %is.unset, label %unfit, label %fit
fit:
  %s = call ptr @bytes_of(ptr %c, ptr %state.bytes)
  %lends = load i64, ptr %s, align 8
  %numbers.at = getelementptr %State, ptr %s, i64 0, i32 1
  %numbers = load i64, ptr %numbers.at, align 8
  %words.at = getelementptr %State, ptr %s, i64 0, i32 2
  %words = load i64, ptr %words.at, align 8
  %result.at = getelementptr %State, ptr %s, i64 0, i32 3
  %result.of = load i64, ptr %result.at, align 8
  %first.lent = getelementptr %State, ptr %s, i64 1
  %first.number = getelementptr %Lent, ptr %first.lent, i64 %lends
  %first.word = getelementptr %Number, ptr %first.number, i64 %numbers
  %made.count = add i64 %tensors, %lends
  br label %next.number

  ; Numbers, before anything is done that could not be done again.
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
  %is.view = icmp eq i64 %words, 0
  br i1 %is.view, label %make, label %ask.open
ask.open:
  %is.open = call i1 @is_open(ptr %c)
  br i1 %is.open, label %next.lent, label %unfit

  ; Buffers.
next.lent:
  %j = phi i64 [ 0, %ask.open ], [ %j.then, %got ]
  %is.lent.left = icmp slt i64 %j, %lends
  br i1 %is.lent.left, label %lend, label %launch
lend:
  %wanted = getelementptr %Lent, ptr %first.lent, i64 %j
  %new = call ptr @lent(ptr %c, ptr %wanted)
  %no.new = icmp eq ptr %new, null
  br i1 %no.new, label %failed, label %got
got:
  %new.place = add i64 %tensors, %j
  %new.to = getelementptr ptr, ptr %buffers, i64 %new.place
  store ptr %new, ptr %new.to, align 8
  %new.address = call i64 @address_of(ptr %c, ptr %new)
  %new.value.to = getelementptr i64, ptr %values, i64 %new.place
  store i64 %new.address, ptr %new.value.to, align 8
  %j.then = add i64 %j, 1
  br label %next.lent
launch:
  %is.launched = call i1 @launched(ptr %c, ptr %s, ptr %first.word, ptr %values)
  br i1 %is.launched, label %make, label %failed
make:
  %made.lends = phi i64 [ 0, %has.numbers ], [ %j, %launch ]
  %of.at = getelementptr ptr, ptr %buffers, i64 %result.of
  %of = load ptr, ptr %of.at, align 8
  %view = getelementptr %State, ptr %s, i64 0, i32 7
  %tuple = call ptr @result(ptr %c, ptr %view, ptr %of, ptr %doubt)
  br label %clean
failed:
  %failed.lends = phi i64 [ %j, %lend ], [ %j, %launch ]
  br label %clean
clean:
  %left = phi i64 [ %made.lends, %make ], [ %failed.lends, %failed ]
  %out = phi ptr [ %tuple, %make ], [ null, %failed ]
  br label %next.drop
next.drop:
  %k = phi i64 [ 0, %clean ], [ %k.then, %drop.one ]
  %is.drop.left = icmp slt i64 %k, %left
  br i1 %is.drop.left, label %drop.one, label %done
drop.one:
  %drop.place = add i64 %tensors, %k
  %drop.at = getelementptr ptr, ptr %buffers, i64 %drop.place
  %dropped = load ptr, ptr %drop.at, align 8
  call void @drop(ptr %c, ptr %dropped)
  %k.then = add i64 %k, 1
  br label %next.drop
done:
  call void @drop(ptr %c, ptr %replay)
  ret ptr %out

unfit:
  call void @drop(ptr %c, ptr %replay)
  br label %slowly
slowly:
  %slow.at = getelementptr %Calls, ptr %c, i64 0, i32 32
  %slow = load ptr, ptr %slow.at, align 8
  %slow.result = call ptr @called(ptr %c, ptr %slow, ptr %arguments, i64 %given)
  ret ptr %slow.result
}
