; Launches that wait for the next submission: as `WgpuBundle._launch_each` and `Queue.append`.
;
; It stands behind `call.ll`, whose table it has.

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
