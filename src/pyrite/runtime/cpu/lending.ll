; Many buffers of an allocator at once: what `lent` of `bundle_memory.py` does.
;
; `execute` is a function of CPython's (METH_FASTCALL): self is the bytes of %Lending, its arguments are
; `Allocator.lend` and a tuple of tuples, for each buffer the queue of leases of its size that ended, the
; queue's pop and append, the bytes, and the size class.  It returns a list.  Where no block waits to be
; lent again, `Allocator.lend` makes the buffer.  `take` and `lease` do so in two steps.
;
; Functions of objects stand in `objects.ll`.

%Lending = type {
  [20 x ptr], ; functions of the C API as in `call.ll`
  ptr, ; 20 PyTuple_GetItem
  ; Objects.
  ptr, ; 21 None
  ptr, ; 22 the class of buffers
  ptr, ; 23 the class of leases
  ; Bytes from the beginning of an object to its slots.
  i64, ; 24 any object: its class
  i64, ; 25 a buffer: block
  i64, ; 26 address
  i64, ; 27 nbytes
  i64, ; 28 origin
  i64, ; 29 a lease: block
  i64, ; 30 a block: address
  i64  ; 31 lease
}

; Owned: a buffer of the block of a lease that ended; null with an error.
define internal ptr @of_block(ptr %c, ptr %before, ptr %end, ptr %nbytes) {
entry:
  %arguments = alloca [2 x ptr], align 8
  %second.at = getelementptr [2 x ptr], ptr %arguments, i64 0, i64 1
  %nothing = call ptr @field(ptr %c, i64 21)
  %buffer.class = call ptr @field(ptr %c, i64 22)
  %lease.class = call ptr @field(ptr %c, i64 23)
  %block = call ptr @slot(ptr %c, i32 29, ptr %before)
  %buffer = call ptr @made(ptr %c, ptr %buffer.class)
  %no.buffer = icmp eq ptr %buffer, null
  br i1 %no.buffer, label %none, label %fill
fill:
  %address = call ptr @slot(ptr %c, i32 30, ptr %block)
  call void @put(ptr %c, i32 25, ptr %buffer, ptr %block)
  call void @put(ptr %c, i32 26, ptr %buffer, ptr %address)
  call void @put(ptr %c, i32 27, ptr %buffer, ptr %nbytes)
  call void @put(ptr %c, i32 28, ptr %buffer, ptr %nothing)
  store ptr %buffer, ptr %arguments, align 8
  store ptr %end, ptr %second.at, align 8
  %lease = call ptr @called(ptr %c, ptr %lease.class, ptr %arguments, i64 2)
  %no.lease = icmp eq ptr %lease, null
  br i1 %no.lease, label %lost, label %leased
leased:
  call void @put(ptr %c, i32 29, ptr %lease, ptr %block)
  call void @replace(ptr %c, i32 31, ptr %block, ptr %lease)
  ret ptr %buffer
lost:
  call void @drop(ptr %c, ptr %buffer)
  br label %none
none:
  ret ptr null
}

; Owned: a lease that ended, whose block is to be lent, or a buffer; null with an error.
define internal ptr @taken(ptr %c, ptr %lend, ptr %wanted) {
entry:
  %arguments = alloca [2 x ptr], align 8
  %second.at = getelementptr [2 x ptr], ptr %arguments, i64 0, i64 1
  %item = call ptr @field(ptr %c, i64 20)
  %ended = call ptr %item(ptr %wanted, i64 0)
  %pop = call ptr %item(ptr %wanted, i64 1)
  %nbytes = call ptr %item(ptr %wanted, i64 3)
  %of = call ptr %item(ptr %wanted, i64 4)
  %count = call i64 @size_of(ptr %c, ptr %ended)
  %is.some = icmp sgt i64 %count, 0
  br i1 %is.some, label %take, label %ask
take:
  %before = call ptr @called(ptr %c, ptr %pop, ptr null, i64 0)
  %is.gone = icmp eq ptr %before, null
  br i1 %is.gone, label %forget, label %done
forget:
  ; Another thread was faster.
  call void @forget_error(ptr %c)
  br label %ask
ask:
  store ptr %of, ptr %arguments, align 8
  store ptr %nbytes, ptr %second.at, align 8
  %asked = call ptr @called(ptr %c, ptr %lend, ptr %arguments, i64 2)
  ret ptr %asked
done:
  ret ptr %before
}

; Owned: the buffer of what was taken, which is let go of; null with an error.
define internal ptr @leased(ptr %c, ptr %taken, ptr %wanted) {
entry:
  %item = call ptr @field(ptr %c, i64 20)
  %leases = call ptr @field(ptr %c, i64 23)
  %class = call ptr @class_of(ptr %c, ptr %taken)
  %is.lease = icmp eq ptr %class, %leases
  br i1 %is.lease, label %use, label %done
use:
  %end = call ptr %item(ptr %wanted, i64 2)
  %nbytes = call ptr %item(ptr %wanted, i64 3)
  %buffer = call ptr @of_block(ptr %c, ptr %taken, ptr %end, ptr %nbytes)
  call void @drop(ptr %c, ptr %taken)
  ret ptr %buffer
done:
  ret ptr %taken
}

; Owned: one buffer; null with an error.
define internal ptr @lent(ptr %c, ptr %lend, ptr %wanted) {
entry:
  %taken = call ptr @taken(ptr %c, ptr %lend, ptr %wanted)
  %none = icmp eq ptr %taken, null
  br i1 %none, label %failed, label %lease
lease:
  %buffer = call ptr @leased(ptr %c, ptr %taken, ptr %wanted)
  ret ptr %buffer
failed:
  ret ptr null
}

; Put so many of what was taken back into their queues, with an error set: buffers go there themselves.
define internal void @put_back(ptr %c, ptr %made, ptr %wanted, i64 %count) {
entry:
  %given = alloca ptr, align 8
  %item = call ptr @field(ptr %c, i64 20)
  %leases = call ptr @field(ptr %c, i64 23)
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %go.on ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %done
look:
  %one = call ptr @item(ptr %c, ptr %made, i64 %n)
  %class = call ptr @class_of(ptr %c, ptr %one)
  %is.lease = icmp eq ptr %class, %leases
  br i1 %is.lease, label %end.it, label %go.on
end.it:
  %its = call ptr %item(ptr %wanted, i64 %n)
  %end = call ptr %item(ptr %its, i64 2)
  store ptr %one, ptr %given, align 8
  %was.ended = call ptr @called(ptr %c, ptr %end, ptr %given, i64 1)
  %no.result = icmp eq ptr %was.ended, null
  br i1 %no.result, label %go.on, label %drop.it
drop.it:
  call void @drop(ptr %c, ptr %was.ended)
  br label %go.on
go.on:
  %after = add i64 %n, 1
  br label %next
done:
  ret void
}

; Owned: a list of what is taken, or lent at once, for each that is wanted; null with an error.
define internal ptr @all(ptr %c, ptr %arguments, i1 %at.once) {
entry:
  %lend = load ptr, ptr %arguments, align 8
  %wanted.at = getelementptr ptr, ptr %arguments, i64 1
  %wanted = load ptr, ptr %wanted.at, align 8
  %item = call ptr @field(ptr %c, i64 20)
  %new = call ptr @field(ptr %c, i64 10)
  %set = call ptr @field(ptr %c, i64 18)
  %count = call i64 @size_of(ptr %c, ptr %wanted)
  %made = call ptr %new(i64 %count)
  %none = icmp eq ptr %made, null
  br i1 %none, label %failed, label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %done
one:
  %its = call ptr %item(ptr %wanted, i64 %n)
  br i1 %at.once, label %lend.it, label %take.it
lend.it:
  %lent = call ptr @lent(ptr %c, ptr %lend, ptr %its)
  br label %made.one
take.it:
  %taken = call ptr @taken(ptr %c, ptr %lend, ptr %its)
  br label %made.one
made.one:
  %buffer = phi ptr [ %lent, %lend.it ], [ %taken, %take.it ]
  %not.made = icmp eq ptr %buffer, null
  br i1 %not.made, label %lost, label %put
put:
  %was.set = call i32 %set(ptr %made, i64 %n, ptr %buffer)
  %after = add i64 %n, 1
  br label %next
done:
  ret ptr %made
lost:
  call void @put_back(ptr %c, ptr %made, ptr %wanted, i64 %n)
  call void @drop(ptr %c, ptr %made)
  br label %failed
failed:
  ret ptr null
}

define ptr @execute(ptr %self, ptr %arguments, i64 %given) {
  ; Where the bytes of a bytes object begin, `native_call.py` has found out, and puts it here.
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %buffers = call ptr @all(ptr %c, ptr %arguments, i1 true)
  ret ptr %buffers
}

; As `execute`, but in the place of a buffer is the lease that ended whose block it will have.
define ptr @take(ptr %self, ptr %arguments, i64 %given) {
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %taken = call ptr @all(ptr %c, ptr %arguments, i1 false)
  ret ptr %taken
}

; Put buffers in the place of leases into the list that `take` returned, for what was wanted there.
define ptr @lease(ptr %self, ptr %arguments, i64 %given) {
entry:
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %taken = load ptr, ptr %arguments, align 8
  %wanted.at = getelementptr ptr, ptr %arguments, i64 1
  %wanted = load ptr, ptr %wanted.at, align 8
  %item = call ptr @field(ptr %c, i64 20)
  %set = call ptr @field(ptr %c, i64 18)
  %count = call i64 @size_of(ptr %c, ptr %wanted)
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %one, label %done
one:
  %its = call ptr %item(ptr %wanted, i64 %n)
  %before = call ptr @item(ptr %c, ptr %taken, i64 %n)
  call void @hold(ptr %c, ptr %before)
  %buffer = call ptr @leased(ptr %c, ptr %before, ptr %its)
  %not.made = icmp eq ptr %buffer, null
  br i1 %not.made, label %failed, label %put
put:
  %was.set = call i32 %set(ptr %taken, i64 %n, ptr %buffer)
  %after = add i64 %n, 1
  br label %next
done:
  %nothing = call ptr @field(ptr %c, i64 21)
  call void @hold(ptr %c, ptr %nothing)
  ret ptr %nothing
failed:
  ret ptr null
}
