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
; Functions of objects stand in `objects.ll`, those that calls on all devices have in `calls.ll`.  An
; object of a list, a dict or a slot is borrowed unless it says "owned".

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

; ---- objects ----

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

; ---- memory: as `Pool.collect` and `Pool.allocate` ----

; Note that nobody holds a storage, and put it among the free ones of its size.
define internal void @put_back(ptr %c, ptr %storage) {
entry:
  %arguments = alloca [2 x ptr], align 8
  %second.at = getelementptr ptr, ptr %arguments, i64 1
  %yes = call ptr @field(ptr %c, i64 81)
  call void @set(ptr %c, i32 66, ptr %storage, ptr %yes)
  %is.listed = call i1 @is_true(ptr %c, i32 67, ptr %storage)
  br i1 %is.listed, label %done, label %list
list:
  %entry.tuple = call ptr @tuple(ptr %c, i64 2)
  %no.tuple = icmp eq ptr %entry.tuple, null
  br i1 %no.tuple, label %forget, label %push
push:
  call void @set(ptr %c, i32 67, ptr %storage, ptr %yes)
  %serial = call ptr @slot(ptr %c, i32 64, ptr %storage)
  %home = call ptr @slot(ptr %c, i32 69, ptr %storage)
  call void @fill(ptr %c, ptr %entry.tuple, i64 0, ptr %serial)
  call void @fill(ptr %c, ptr %entry.tuple, i64 1, ptr %storage)
  store ptr %home, ptr %arguments, align 8
  store ptr %entry.tuple, ptr %second.at, align 8
  %heappush = call ptr @field(ptr %c, i64 36)
  %pushed = call ptr @called(ptr %c, ptr %heappush, ptr %arguments, i64 2)
  call void @drop(ptr %c, ptr %entry.tuple)
  %failed = icmp eq ptr %pushed, null
  br i1 %failed, label %forget, label %drop.it
drop.it:
  call void @drop(ptr %c, ptr %pushed)
  br label %done
forget:
  call void @forget_error(ptr %c)
  br label %done
done:
  ret void
}

define internal void @collect(ptr %c) {
entry:
  %ended = call ptr @field(ptr %c, i64 85)
  %popleft = call ptr @field(ptr %c, i64 86)
  %leases = call ptr @field(ptr %c, i64 84)
  %delete = call ptr @field(ptr %c, i64 95)
  %totals = call ptr @field(ptr %c, i64 93)
  br label %next
next:
  %count = call i64 @size_of(ptr %c, ptr %ended)
  %is.some = icmp sgt i64 %count, 0
  br i1 %is.some, label %take, label %done
take:
  %end = call ptr @called(ptr %c, ptr %popleft, ptr null, i64 0)
  %no.end = icmp eq ptr %end, null
  br i1 %no.end, label %forget, label %give
give:
  %storage = call ptr @slot(ptr %c, i32 63, ptr %end)
  call void @hold(ptr %c, ptr %storage)
  %serial = call ptr @slot(ptr %c, i32 64, ptr %storage)
  %failed = call i32 %delete(ptr %leases, ptr %serial)
  %capacity.number = call ptr @slot(ptr %c, i32 65, ptr %storage)
  %capacity = call i64 @integer_of(ptr %c, ptr %capacity.number)
  %live.was = load i64, ptr %totals, align 8
  %live = sub i64 %live.was, %capacity
  store i64 %live, ptr %totals, align 8
  call void @put_back(ptr %c, ptr %storage)
  call void @drop(ptr %c, ptr %storage)
  call void @drop(ptr %c, ptr %end)
  %was.missing = icmp ne i32 %failed, 0
  br i1 %was.missing, label %forget, label %next
forget:
  call void @forget_error(ptr %c)
  br label %done
done:
  ret void
}

; Owned: a free storage of a size, the oldest; null where there is none.
define internal ptr @taken(ptr %c, ptr %home) {
entry:
  %arguments = alloca [1 x ptr], align 8
  store ptr %home, ptr %arguments, align 8
  %no = call ptr @field(ptr %c, i64 82)
  %heappop = call ptr @field(ptr %c, i64 35)
  br label %next
next:
  %count = call i64 @size_of(ptr %c, ptr %home)
  %is.some = icmp sgt i64 %count, 0
  br i1 %is.some, label %pop, label %none
pop:
  %found = call ptr @called(ptr %c, ptr %heappop, ptr %arguments, i64 1)
  %failed = icmp eq ptr %found, null
  br i1 %failed, label %forget, label %look
look:
  %storage = call ptr @part(ptr %c, ptr %found, i64 1)
  call void @hold(ptr %c, ptr %storage)
  call void @drop(ptr %c, ptr %found)
  call void @set(ptr %c, i32 67, ptr %storage, ptr %no)
  %is.free = call i1 @is_true(ptr %c, i32 66, ptr %storage)
  br i1 %is.free, label %take, label %pass.over
pass.over:
  call void @drop(ptr %c, ptr %storage)
  br label %next
take:
  call void @set(ptr %c, i32 66, ptr %storage, ptr %no)
  ret ptr %storage
forget:
  call void @forget_error(ptr %c)
  br label %none
none:
  ret ptr null
}

; Owned: the key of a buffer that is all of a storage.
define internal ptr @key_of_whole(ptr %c, ptr %storage, ptr %nbytes) {
entry:
  %none = call ptr @field(ptr %c, i64 20)
  %known = call ptr @slot(ptr %c, i32 70, ptr %storage)
  %is.none = icmp eq ptr %known, %none
  br i1 %is.none, label %make, label %look
look:
  %its = call ptr @part(ptr %c, ptr %known, i64 2)
  %is.same = icmp eq ptr %its, %nbytes
  br i1 %is.same, label %use, label %make
use:
  call void @hold(ptr %c, ptr %known)
  ret ptr %known
make:
  %key = call ptr @tuple(ptr %c, i64 3)
  %no.key = icmp eq ptr %key, null
  br i1 %no.key, label %done, label %write
write:
  %serial = call ptr @slot(ptr %c, i32 64, ptr %storage)
  %zero = call ptr @field(ptr %c, i64 83)
  call void @fill(ptr %c, ptr %key, i64 0, ptr %serial)
  call void @fill(ptr %c, ptr %key, i64 1, ptr %zero)
  call void @fill(ptr %c, ptr %key, i64 2, ptr %nbytes)
  call void @set(ptr %c, i32 70, ptr %storage, ptr %key)
  br label %done
done:
  ret ptr %key
}

; Lease a storage to a buffer; false where there is no room for objects.
define internal i1 @leased(ptr %c, ptr %storage, ptr %nbytes, ptr %buffer, ptr %lease, ptr %contents) {
entry:
  %arguments = alloca [2 x ptr], align 8
  %second.at = getelementptr ptr, ptr %arguments, i64 1
  %none = call ptr @field(ptr %c, i64 20)
  %zero = call ptr @field(ptr %c, i64 83)
  %key = call ptr @key_of_whole(ptr %c, ptr %storage, ptr %nbytes)
  %no.key = icmp eq ptr %key, null
  br i1 %no.key, label %lost, label %write
write:
  call void @put(ptr %c, i32 60, ptr %contents, ptr %storage)
  call void @put(ptr %c, i32 61, ptr %contents, ptr %none)
  call void @put(ptr %c, i32 62, ptr %contents, ptr %none)
  call void @put(ptr %c, i32 56, ptr %lease, ptr %contents)
  call void @put(ptr %c, i32 57, ptr %lease, ptr %nbytes)
  call void @put(ptr %c, i32 58, ptr %lease, ptr %none)
  call void @put(ptr %c, i32 51, ptr %buffer, ptr %lease)
  call void @put(ptr %c, i32 52, ptr %buffer, ptr %contents)
  call void @put(ptr %c, i32 53, ptr %buffer, ptr %zero)
  call void @put(ptr %c, i32 54, ptr %buffer, ptr %nbytes)
  call void @put(ptr %c, i32 55, ptr %buffer, ptr %key)
  call void @drop(ptr %c, ptr %key)
  %append = call ptr @field(ptr %c, i64 87)
  %end.class = call ptr @field(ptr %c, i64 33)
  store ptr %lease, ptr %arguments, align 8
  store ptr %append, ptr %second.at, align 8
  %end = call ptr @called(ptr %c, ptr %end.class, ptr %arguments, i64 2)
  %no.end = icmp eq ptr %end, null
  br i1 %no.end, label %lost, label %note
note:
  call void @put(ptr %c, i32 63, ptr %end, ptr %storage)
  %leases = call ptr @field(ptr %c, i64 84)
  %put.item = call ptr @field(ptr %c, i64 98)
  %serial = call ptr @slot(ptr %c, i32 64, ptr %storage)
  %failed = call i32 %put.item(ptr %leases, ptr %serial, ptr %end)
  call void @drop(ptr %c, ptr %end)
  %not.put = icmp ne i32 %failed, 0
  br i1 %not.put, label %lost, label %count
count:
  %totals = call ptr @field(ptr %c, i64 93)
  %most.at = getelementptr i64, ptr %totals, i64 1
  %capacity.number = call ptr @slot(ptr %c, i32 65, ptr %storage)
  %capacity = call i64 @integer_of(ptr %c, ptr %capacity.number)
  %live.was = load i64, ptr %totals, align 8
  %live = add i64 %live.was, %capacity
  store i64 %live, ptr %totals, align 8
  %most.was = load i64, ptr %most.at, align 8
  %is.more = icmp sgt i64 %live, %most.was
  %most = select i1 %is.more, i64 %live, i64 %most.was
  store i64 %most, ptr %most.at, align 8
  ret i1 true
lost:
  call void @forget_error(ptr %c)
  call void @put_back(ptr %c, ptr %storage)
  ret i1 false
}

; Owned: a buffer of a %Lent; null where no storage of its size is free.
define internal ptr @lent(ptr %c, ptr %wanted) {
entry:
  %nbytes.at = getelementptr %Lent, ptr %wanted, i64 0, i32 1
  %home = load ptr, ptr %wanted, align 8
  %nbytes = load ptr, ptr %nbytes.at, align 8
  call void @collect(ptr %c)
  %buffer.class = call ptr @field(ptr %c, i64 27)
  %contents.class = call ptr @field(ptr %c, i64 28)
  %lease.class = call ptr @field(ptr %c, i64 29)
  %buffer = call ptr @made(ptr %c, ptr %buffer.class)
  %no.buffer = icmp eq ptr %buffer, null
  br i1 %no.buffer, label %none, label %make.lease
make.lease:
  %lease = call ptr @made(ptr %c, ptr %lease.class)
  %no.lease = icmp eq ptr %lease, null
  br i1 %no.lease, label %drop.buffer, label %make.contents
make.contents:
  %contents = call ptr @made(ptr %c, ptr %contents.class)
  %no.contents = icmp eq ptr %contents, null
  br i1 %no.contents, label %drop.lease, label %take
take:
  %storage = call ptr @taken(ptr %c, ptr %home)
  %no.storage = icmp eq ptr %storage, null
  br i1 %no.storage, label %drop.contents, label %lend
lend:
  %is.leased = call i1 @leased(ptr %c, ptr %storage, ptr %nbytes, ptr %buffer, ptr %lease, ptr %contents)
  call void @drop(ptr %c, ptr %storage)
  br i1 %is.leased, label %done, label %drop.contents
done:
  call void @drop(ptr %c, ptr %lease)
  call void @drop(ptr %c, ptr %contents)
  ret ptr %buffer
drop.contents:
  call void @drop(ptr %c, ptr %contents)
  br label %drop.lease
drop.lease:
  call void @drop(ptr %c, ptr %lease)
  br label %drop.buffer
drop.buffer:
  call void @drop(ptr %c, ptr %buffer)
  br label %none
none:
  call void @forget_error(ptr %c)
  ret ptr null
}

; ---- launches: as `WgpuBundle._launch_each` and `Queue.append` ----

; The buffer of a step.
define internal ptr @operand(ptr %step, ptr %buffers, i64 %n) {
  %which.at = getelementptr %Step, ptr %step, i64 0, i32 3, i64 %n
  %which = load i64, ptr %which.at, align 8
  %at = getelementptr ptr, ptr %buffers, i64 %which
  %buffer = load ptr, ptr %at, align 8
  ret ptr %buffer
}

; Owned: what a step is bound to with such buffers; null where that is not known, or a buffer is gone.
define internal ptr @bound(ptr %c, ptr %step, ptr %buffers) {
entry:
  %none = call ptr @field(ptr %c, i64 20)
  %count.at = getelementptr %Step, ptr %step, i64 0, i32 2
  %count = load i64, ptr %count.at, align 8
  %keys = call ptr @tuple(ptr %c, i64 %count)
  %no.keys = icmp eq ptr %keys, null
  br i1 %no.keys, label %forget, label %next
next:
  %n = phi i64 [ 0, %entry ], [ %then, %part ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %part, label %look
part:
  %buffer = call ptr @operand(ptr %step, ptr %buffers, i64 %n)
  %key = call ptr @slot(ptr %c, i32 55, ptr %buffer)
  call void @fill(ptr %c, ptr %keys, i64 %n, ptr %key)
  %contents = call ptr @slot(ptr %c, i32 52, ptr %buffer)
  %gone = call ptr @slot(ptr %c, i32 62, ptr %contents)
  %is.there = icmp eq ptr %gone, %none
  %then = add i64 %n, 1
  br i1 %is.there, label %next, label %drop.keys
drop.keys:
  call void @drop(ptr %c, ptr %keys)
  br label %forget
look:
  %known.at = getelementptr %Step, ptr %step, i64 0, i32 1
  %known = load ptr, ptr %known.at, align 8
  %get = call ptr @field(ptr %c, i64 8)
  %found = call ptr %get(ptr %known, ptr %keys)
  %is.missing = icmp eq ptr %found, null
  br i1 %is.missing, label %drop.keys, label %use
use:
  call void @hold(ptr %c, ptr %found)
  call void @drop(ptr %c, ptr %keys)
  ret ptr %found
forget:
  call void @forget_error(ptr %c)
  ret ptr null
}

; Owned: the row of a step that is bound, with its numbers; null where there is no room.
define internal ptr @row(ptr %c, ptr %step, ptr %found, ptr %values) {
entry:
  %words.at = getelementptr %Step, ptr %step, i64 0, i32 4
  %words = load i64, ptr %words.at, align 8
  %fixed = call ptr @part(ptr %c, ptr %found, i64 1)
  %are.none = icmp eq i64 %words, 0
  br i1 %are.none, label %same, label %copy
same:
  call void @hold(ptr %c, ptr %fixed)
  ret ptr %fixed
copy:
  %size = call i64 @size_of(ptr %c, ptr %fixed)
  %new = call ptr @field(ptr %c, i64 14)
  %row = call ptr %new(ptr null, i64 %size)
  %no.row = icmp eq ptr %row, null
  br i1 %no.row, label %done, label %write
write:
  %from = call ptr @bytes_of(ptr %c, ptr %fixed)
  %to = call ptr @bytes_of(ptr %c, ptr %row)
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
  br label %next
next:
  %n = phi i64 [ 0, %write ], [ %then, %wrote ]
  %is.more = icmp slt i64 %n, %words
  br i1 %is.more, label %word, label %done
word:
  %byte.at = getelementptr %Step, ptr %step, i64 0, i32 5, i64 %n, i32 0
  %byte = load i64, ptr %byte.at, align 8
  %which.at = getelementptr %Step, ptr %step, i64 0, i32 5, i64 %n, i32 1
  %which = load i64, ptr %which.at, align 8
  %width.at = getelementptr %Step, ptr %step, i64 0, i32 5, i64 %n, i32 2
  %width = load i64, ptr %width.at, align 8
  %value.at = getelementptr i64, ptr %values, i64 %which
  %value = load i64, ptr %value.at, align 8
  %put.at = getelementptr i8, ptr %to, i64 %byte
  %is.short = icmp eq i64 %width, 4
  br i1 %is.short, label %short, label %long
short:
  %half = trunc i64 %value to i32
  store i32 %half, ptr %put.at, align 1
  br label %wrote
long:
  store i64 %value, ptr %put.at, align 1
  br label %wrote
wrote:
  %then = add i64 %n, 1
  br label %next
done:
  ret ptr %row
}

; Append a launch to what is pending; false where an error was raised.  All objects are made first: to make
; one may run finalisers, which may launch and submit.
define internal i1 @appended(ptr %c, ptr %step, ptr %found, ptr %row, ptr %buffers) {
entry:
  %count.at = getelementptr %Step, ptr %step, i64 0, i32 2
  %count = load i64, ptr %count.at, align 8
  %class = call ptr @field(ptr %c, i64 34)
  %touched = call ptr @tuple(ptr %c, i64 %count)
  %no.touched = icmp eq ptr %touched, null
  br i1 %no.touched, label %raised, label %next
next:
  %n = phi i64 [ 0, %entry ], [ %then, %part ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %part, label %make
part:
  %buffer = call ptr @operand(ptr %step, ptr %buffers, i64 %n)
  %contents = call ptr @slot(ptr %c, i32 52, ptr %buffer)
  call void @fill(ptr %c, ptr %touched, i64 %n, ptr %contents)
  %then = add i64 %n, 1
  br label %next
make:
  %launch = call ptr @made(ptr %c, ptr %class)
  %no.launch = icmp eq ptr %launch, null
  br i1 %no.launch, label %drop.touched, label %write
write:
  %of = load ptr, ptr %step, align 8
  %group = call ptr @part(ptr %c, ptr %found, i64 0)
  call void @put(ptr %c, i32 75, ptr %launch, ptr %of)
  call void @put(ptr %c, i32 76, ptr %launch, ptr %group)
  call void @put(ptr %c, i32 77, ptr %launch, ptr %row)
  call void @put(ptr %c, i32 78, ptr %launch, ptr %touched)
  %queue = call ptr @field(ptr %c, i64 39)
  %pending = call ptr @slot(ptr %c, i32 71, ptr %queue)
  %number = call ptr @slot(ptr %c, i32 74, ptr %pending)
  br label %next.use
next.use:
  %m = phi i64 [ 0, %write ], [ %m.then, %use ]
  %is.use.left = icmp slt i64 %m, %count
  br i1 %is.use.left, label %use, label %append.it
use:
  %used = call ptr @part(ptr %c, ptr %touched, i64 %m)
  %storage = call ptr @slot(ptr %c, i32 60, ptr %used)
  call void @set(ptr %c, i32 68, ptr %storage, ptr %number)
  %m.then = add i64 %m, 1
  br label %next.use
append.it:
  %commands = call ptr @slot(ptr %c, i32 72, ptr %pending)
  %append = call ptr @field(ptr %c, i64 16)
  %failed = call i32 %append(ptr %commands, ptr %launch)
  call void @drop(ptr %c, ptr %launch)
  %not.appended = icmp ne i32 %failed, 0
  br i1 %not.appended, label %drop.touched, label %count.it
count.it:
  %size.number = call ptr @slot(ptr %c, i32 73, ptr %pending)
  %size = call i64 @integer_of(ptr %c, ptr %size.number)
  %size.then = add i64 %size, 1
  %integer = call ptr @field(ptr %c, i64 97)
  %size.object = call ptr %integer(i64 %size.then)
  %no.size = icmp eq ptr %size.object, null
  br i1 %no.size, label %drop.touched, label %done
done:
  call void @replace(ptr %c, i32 73, ptr %pending, ptr %size.object)
  call void @drop(ptr %c, ptr %touched)
  %launches = call ptr @field(ptr %c, i64 94)
  %made.was = load i64, ptr %launches, align 8
  %made.then = add i64 %made.was, 1
  store i64 %made.then, ptr %launches, align 8
  ret i1 true
drop.touched:
  call void @drop(ptr %c, ptr %touched)
  br label %raised
raised:
  ret i1 false
}

; Whether the device works; where not, Python says why.
define internal i1 @works(ptr %c) {
entry:
  %none = call ptr @field(ptr %c, i64 20)
  %life = call ptr @field(ptr %c, i64 41)
  %failure = call ptr @slot(ptr %c, i32 79, ptr %life)
  %is.fine = icmp eq ptr %failure, %none
  br i1 %is.fine, label %first, label %no
first:
  %gpu = call ptr @field(ptr %c, i64 89)
  %name = call ptr @field(ptr %c, i64 90)
  %its = call ptr @attribute(ptr %c, ptr %gpu, ptr %name)
  %is.lost = icmp eq ptr %its, null
  br i1 %is.lost, label %no, label %second
second:
  call void @drop(ptr %c, ptr %its)
  %other.name = call ptr @field(ptr %c, i64 91)
  %other = call ptr @attribute(ptr %c, ptr %gpu, ptr %other.name)
  %is.lost.too = icmp eq ptr %other, null
  br i1 %is.lost.too, label %no, label %both
both:
  call void @drop(ptr %c, ptr %other)
  %has.one = icmp ne ptr %its, %none
  %has.other = icmp ne ptr %other, %none
  %has.both = and i1 %has.one, %has.other
  ret i1 %has.both
no:
  call void @forget_error(ptr %c)
  ret i1 false
}

; Whether the lock was free, or this thread's; then it is taken.
define internal i1 @locked(ptr %c) {
entry:
  %arguments = alloca [1 x ptr], align 8
  %acquire = call ptr @field(ptr %c, i64 37)
  %no = call ptr @field(ptr %c, i64 82)
  %yes = call ptr @field(ptr %c, i64 81)
  store ptr %no, ptr %arguments, align 8
  %answer = call ptr @called(ptr %c, ptr %acquire, ptr %arguments, i64 1)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %forget, label %look
look:
  call void @drop(ptr %c, ptr %answer)
  %is.taken = icmp eq ptr %answer, %yes
  ret i1 %is.taken
forget:
  call void @forget_error(ptr %c)
  ret i1 false
}

define internal void @unlock(ptr %c) {
entry:
  %release = call ptr @field(ptr %c, i64 38)
  %done = call ptr @called(ptr %c, ptr %release, ptr null, i64 0)
  %failed = icmp eq ptr %done, null
  br i1 %failed, label %over, label %drop.it
drop.it:
  call void @drop(ptr %c, ptr %done)
  br label %over
over:
  ret void
}

; Make the launches of a call, with the lock: 0 where all are made, 1 where it is to be done by Python and
; nothing is made, 2 where an error was raised.
define internal i32 @launched(ptr %c, ptr %steps, i64 %count, ptr %buffers, ptr %values) {
entry:
  %found = alloca [4 x ptr], align 8
  %rows = alloca [4 x ptr], align 8
  br label %next.look
next.look:
  %i = phi i64 [ 0, %entry ], [ %i.then, %has.row ]
  %is.look.left = icmp slt i64 %i, %count
  br i1 %is.look.left, label %look, label %all.found
look:
  %step = getelementptr %Step, ptr %steps, i64 %i
  %its = call ptr @bound(ptr %c, ptr %step, ptr %buffers)
  %is.unknown = icmp eq ptr %its, null
  br i1 %is.unknown, label %clean, label %known
known:
  %row = call ptr @row(ptr %c, ptr %step, ptr %its, ptr %values)
  %no.row = icmp eq ptr %row, null
  br i1 %no.row, label %drop.known, label %has.row
drop.known:
  call void @drop(ptr %c, ptr %its)
  call void @forget_error(ptr %c)
  br label %clean
has.row:
  %its.at = getelementptr ptr, ptr %found, i64 %i
  store ptr %its, ptr %its.at, align 8
  %row.at = getelementptr ptr, ptr %rows, i64 %i
  store ptr %row, ptr %row.at, align 8
  %i.then = add i64 %i, 1
  br label %next.look
all.found:
  br label %next.launch
next.launch:
  %j = phi i64 [ 0, %all.found ], [ %j.then, %launch ]
  %is.launch.left = icmp slt i64 %j, %count
  br i1 %is.launch.left, label %launch, label %all.made
launch:
  %made.step = getelementptr %Step, ptr %steps, i64 %j
  %made.found.at = getelementptr ptr, ptr %found, i64 %j
  %made.found = load ptr, ptr %made.found.at, align 8
  %made.row.at = getelementptr ptr, ptr %rows, i64 %j
  %made.row = load ptr, ptr %made.row.at, align 8
  %is.appended = call i1 @appended(ptr %c, ptr %made.step, ptr %made.found, ptr %made.row, ptr %buffers)
  %j.then = add i64 %j, 1
  br i1 %is.appended, label %next.launch, label %failed
all.made:
  br label %clean
failed:
  br label %clean
clean:
  %left = phi i64 [ %i, %look ], [ %i, %drop.known ], [ %count, %all.made ], [ %count, %failed ]
  %out = phi i32 [ 1, %look ], [ 1, %drop.known ], [ 0, %all.made ], [ 2, %failed ]
  call void @drop_all(ptr %c, ptr %found, i64 0, i64 %left)
  call void @drop_all(ptr %c, ptr %rows, i64 0, i64 %left)
  ret i32 %out
}

; Have the queue go on where it is time to; false where an error was raised.
define internal i1 @gone_on(ptr %c) {
entry:
  %queue = call ptr @field(ptr %c, i64 39)
  %pending = call ptr @slot(ptr %c, i32 71, ptr %queue)
  %size.number = call ptr @slot(ptr %c, i32 73, ptr %pending)
  %size = call i64 @integer_of(ptr %c, ptr %size.number)
  %pace = call ptr @field(ptr %c, i64 88)
  %due.number = call ptr @slot(ptr %c, i32 80, ptr %pace)
  %due = call i64 @integer_of(ptr %c, ptr %due.number)
  %every.at = getelementptr i64, ptr %c, i64 99
  %every = load i64, ptr %every.at, align 8
  %rest = srem i64 %size, %every
  %is.due = icmp sge i64 %size, %due
  %is.round = icmp eq i64 %rest, 0
  %is.time = or i1 %is.due, %is.round
  br i1 %is.time, label %go, label %done
go:
  %go.on = call ptr @field(ptr %c, i64 40)
  %went = call ptr @called(ptr %c, ptr %go.on, ptr null, i64 0)
  %failed = icmp eq ptr %went, null
  br i1 %failed, label %raised, label %drop.it
drop.it:
  call void @drop(ptr %c, ptr %went)
  br label %done
done:
  ret i1 true
raised:
  ret i1 false
}

; ---- a call ----

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

; ---- results of programs ----

; Owned: a buffer in the first storage of some weak references that is free; null where none is.
define internal ptr @lent_again(ptr %c, ptr %places, ptr %nbytes) {
entry:
  %none = call ptr @field(ptr %c, i64 20)
  %no = call ptr @field(ptr %c, i64 82)
  %count = call i64 @size_of(ptr %c, ptr %places)
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %then, %pass.over ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %nothing
look:
  %place = call ptr @item(ptr %c, ptr %places, i64 %n)
  %storage = call ptr @called(ptr %c, ptr %place, ptr null, i64 0)
  %failed = icmp eq ptr %storage, null
  br i1 %failed, label %nothing, label %ask
ask:
  %is.gone = icmp eq ptr %storage, %none
  br i1 %is.gone, label %pass.over, label %ask.free
ask.free:
  %is.free = call i1 @is_true(ptr %c, i32 66, ptr %storage)
  br i1 %is.free, label %make, label %pass.over
pass.over:
  call void @drop(ptr %c, ptr %storage)
  %then = add i64 %n, 1
  br label %next
make:
  %buffer.class = call ptr @field(ptr %c, i64 27)
  %contents.class = call ptr @field(ptr %c, i64 28)
  %lease.class = call ptr @field(ptr %c, i64 29)
  %buffer = call ptr @made(ptr %c, ptr %buffer.class)
  %no.buffer = icmp eq ptr %buffer, null
  br i1 %no.buffer, label %drop.storage, label %make.lease
make.lease:
  %lease = call ptr @made(ptr %c, ptr %lease.class)
  %no.lease = icmp eq ptr %lease, null
  br i1 %no.lease, label %drop.buffer, label %make.contents
make.contents:
  %contents = call ptr @made(ptr %c, ptr %contents.class)
  %no.contents = icmp eq ptr %contents, null
  br i1 %no.contents, label %drop.lease, label %lend
lend:
  ; It stays in its list, where it is passed over.
  call void @set(ptr %c, i32 66, ptr %storage, ptr %no)
  %is.leased = call i1 @leased(ptr %c, ptr %storage, ptr %nbytes, ptr %buffer, ptr %lease, ptr %contents)
  br i1 %is.leased, label %done, label %drop.contents
done:
  call void @drop(ptr %c, ptr %storage)
  call void @drop(ptr %c, ptr %lease)
  call void @drop(ptr %c, ptr %contents)
  ret ptr %buffer
drop.contents:
  call void @drop(ptr %c, ptr %contents)
  br label %drop.lease
drop.lease:
  call void @drop(ptr %c, ptr %lease)
  br label %drop.buffer
drop.buffer:
  call void @drop(ptr %c, ptr %buffer)
  br label %drop.storage
drop.storage:
  call void @drop(ptr %c, ptr %storage)
  br label %nothing
nothing:
  call void @forget_error(ptr %c)
  ret ptr null
}

; As `Pool.allocate_again`, by whom holds the lock: of a list of what is wanted, a list of buffers to fill,
; and a number.  `slow` does it for one that is wanted of which no storage is free.
define ptr @again(ptr %self, ptr %arguments, i64 %given) {
entry:
  %passed = alloca [3 x ptr], align 8
  %second.at = getelementptr ptr, ptr %passed, i64 1
  %third.at = getelementptr ptr, ptr %passed, i64 2
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %none = call ptr @field(ptr %c, i64 20)
  %slow = call ptr @field(ptr %c, i64 32)
  %put.item = call ptr @field(ptr %c, i64 18)
  %wanted = load ptr, ptr %arguments, align 8
  %found.at = getelementptr ptr, ptr %arguments, i64 1
  %found = load ptr, ptr %found.at, align 8
  %most.at = getelementptr ptr, ptr %arguments, i64 2
  %most = load ptr, ptr %most.at, align 8
  %count = call i64 @size_of(ptr %c, ptr %wanted)
  store ptr %found, ptr %second.at, align 8
  store ptr %most, ptr %third.at, align 8
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %then, %put ], [ %then.slow, %drop.it ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %over
one:
  %each = call ptr @item(ptr %c, ptr %wanted, i64 %n)
  %place = call ptr @part(ptr %c, ptr %each, i64 0)
  %nbytes = call ptr @part(ptr %c, ptr %each, i64 1)
  %places = call ptr @part(ptr %c, ptr %each, i64 2)
  call void @collect(ptr %c)
  %buffer = call ptr @lent_again(ptr %c, ptr %places, ptr %nbytes)
  %no.buffer = icmp eq ptr %buffer, null
  br i1 %no.buffer, label %ask, label %put
put:
  %at = call i64 @integer_of(ptr %c, ptr %place)
  %done = call i32 %put.item(ptr %found, i64 %at, ptr %buffer)
  %then = add i64 %n, 1
  br label %next
ask:
  store ptr %each, ptr %passed, align 8
  %answer = call ptr @called(ptr %c, ptr %slow, ptr %passed, i64 3)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %raised, label %drop.it
drop.it:
  call void @drop(ptr %c, ptr %answer)
  %then.slow = add i64 %n, 1
  br label %next
over:
  call void @hold(ptr %c, ptr %none)
  ret ptr %none
raised:
  ret ptr null
}
