; Storages that are lent to buffers: as `Pool.collect` and `Pool.allocate`.
;
; It stands behind `call.ll`, whose table it has.

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
