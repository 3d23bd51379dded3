; The operands of a program that ran before: whether they are as they were, and where they are.
;
; `gather` is a function of CPython's (METH_FASTCALL): self is the bytes of %Operands.  Where anything is
; not as it was in the run before it has done nothing, and returns None.
;
; Functions of objects stand in `objects.ll`, and what writes the commands in `commands.ll`, behind this.

%Operands = type {
  [20 x ptr], ; functions of the C API as in `call.ll`
  ; Objects.
  ptr, ; 20 None
  ptr, ; 21 list
  ptr, ; 22 the class of tensors
  ptr, ; 23 the class of buffers
  ptr, ; 24 the class of parts of buffers
  ptr, ; 25 float
  ptr, ; 26 int
  ptr, ; 27 the class of leases
  ptr, ; 28 the name of what returns the layout of a tensor
  ; Bytes from the beginning of an object to its slots.
  i64, ; 29 any object: its class
  i64, ; 30 a tensor: buffer
  i64, ; 31 layout
  i64, ; 32 doubt
  i64, ; 33 a buffer: address
  i64, ; 34 a part: base
  i64, ; 35 offset
  i64, ; 36 a number: value
  i64, ; 37 a lease: block
  i64  ; 38 a block: address
}

declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

; Ask for the cache lines of an object of up to 128 bytes.
define internal void @ask_for(ptr %object) {
  %further = getelementptr i8, ptr %object, i64 64
  call void @llvm.prefetch.p0(ptr %object, i32 0, i32 3, i32 1)
  call void @llvm.prefetch.p0(ptr %further, i32 0, i32 3, i32 1)
  ret void
}

define internal i64 @word_at(ptr %words, i64 %n) {
  %at = getelementptr i64, ptr %words, i64 %n
  %word = load i64, ptr %at, align 1
  ret i64 %word
}

define internal void @put_word(ptr %words, i64 %n, i64 %word) {
  %at = getelementptr i64, ptr %words, i64 %n
  store i64 %word, ptr %at, align 1
  ret void
}

; The layout of a tensor, which it is asked for where nobody has yet; 0 with an error.
define internal i64 @layout_of(ptr %c, ptr %tensor) {
entry:
  %known = call i64 @number_in(ptr %c, i32 31, ptr %tensor)
  %is.unknown = icmp eq i64 %known, 0
  br i1 %is.unknown, label %ask, label %done
ask:
  %name = call ptr @field(ptr %c, i64 28)
  %method = call ptr @attribute(ptr %c, ptr %tensor, ptr %name)
  %no.method = icmp eq ptr %method, null
  br i1 %no.method, label %done, label %call
call:
  %found = call ptr @called(ptr %c, ptr %method, ptr null, i64 0)
  call void @drop(ptr %c, ptr %method)
  %not.found = icmp eq ptr %found, null
  br i1 %not.found, label %done, label %take
take:
  %value = call i64 @integer_of(ptr %c, ptr %found)
  call void @drop(ptr %c, ptr %found)
  ret i64 %value
done:
  ret i64 %known
}

; Whether objects are tensors that lie as they did; their buffers are put down, and asked for.
define internal i1 @are_tensors(ptr %c, ptr %objects, i64 %count, ptr %layouts, ptr %buffers) {
entry:
  %tensors = call ptr @field(ptr %c, i64 22)
  br label %ask
ask:
  %m = phi i64 [ 0, %entry ], [ %m.after, %one.more ]
  %is.some = icmp slt i64 %m, %count
  br i1 %is.some, label %one.more, label %next
one.more:
  %far = call ptr @item(ptr %c, ptr %objects, i64 %m)
  call void @ask_for(ptr %far)
  %m.after = add i64 %m, 1
  br label %ask
next:
  %n = phi i64 [ 0, %ask ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %yes
look:
  %one = call ptr @item(ptr %c, ptr %objects, i64 %n)
  %class = call ptr @class_of(ptr %c, ptr %one)
  %is.tensor = icmp eq ptr %class, %tensors
  br i1 %is.tensor, label %ask.layout, label %no
ask.layout:
  %wanted = call i64 @word_at(ptr %layouts, i64 %n)
  %layout = call i64 @layout_of(ptr %c, ptr %one)
  %lies.so = icmp eq i64 %layout, %wanted
  br i1 %lies.so, label %put, label %no
put:
  %buffer = call ptr @slot(ptr %c, i32 30, ptr %one)
  call void @ask_for(ptr %buffer)
  %word = ptrtoint ptr %buffer to i64
  call void @put_word(ptr %buffers, i64 %n, i64 %word)
  %after = add i64 %n, 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}

; The number in a slot of a buffer, or a part.
define internal i64 @number_in(ptr %c, i32 %field, ptr %object) {
  %number = call ptr @slot(ptr %c, i32 %field, ptr %object)
  %value = call i64 @integer_of(ptr %c, ptr %number)
  ret i64 %value
}

; Where a buffer, or a part of one, begins; 0 of any other object.
define internal i64 @address_of(ptr %c, ptr %object) {
entry:
  %buffers = call ptr @field(ptr %c, i64 23)
  %parts = call ptr @field(ptr %c, i64 24)
  %class = call ptr @class_of(ptr %c, ptr %object)
  %is.part = icmp eq ptr %class, %parts
  br i1 %is.part, label %part, label %whole
part:
  %base = call ptr @slot(ptr %c, i32 34, ptr %object)
  %offset = call i64 @number_in(ptr %c, i32 35, ptr %object)
  br label %whole
whole:
  %of = phi ptr [ %object, %entry ], [ %base, %part ]
  %from = phi i64 [ 0, %entry ], [ %offset, %part ]
  %its.class = call ptr @class_of(ptr %c, ptr %of)
  %is.buffer = icmp eq ptr %its.class, %buffers
  br i1 %is.buffer, label %add, label %unknown
add:
  %begin = call i64 @number_in(ptr %c, i32 33, ptr %of)
  %address = add i64 %begin, %from
  ret i64 %address
unknown:
  ret i64 0
}

; Put the addresses of buffers in the place of these; whether all are known.
define internal i1 @are_addressed(ptr %c, ptr %buffers, i64 %count) {
entry:
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %yes
look:
  %word = call i64 @word_at(ptr %buffers, i64 %n)
  %buffer = inttoptr i64 %word to ptr
  %address = call i64 @address_of(ptr %c, ptr %buffer)
  %is.unknown = icmp eq i64 %address, 0
  br i1 %is.unknown, label %no, label %put
put:
  call void @put_word(ptr %buffers, i64 %n, i64 %address)
  %after = add i64 %n, 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}

; The place of an object among so many that are known; their count where it is none of them.
define internal i64 @place_of(ptr %known, i64 %count, ptr %one) {
entry:
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %go.on ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %found
look:
  %at = getelementptr ptr, ptr %known, i64 %n
  %other = load ptr, ptr %at, align 8
  %is.it = icmp eq ptr %other, %one
  br i1 %is.it, label %found, label %go.on
go.on:
  %after = add i64 %n, 1
  br label %next
found:
  ret i64 %n
}

; Whether an object is, among those that are known, where it was; one that comes first is known then.
; There are as many as 64.
define internal i1 @is_placed(ptr %known, ptr %many, i64 %wanted, ptr %one) {
entry:
  %count = load i64, ptr %many, align 8
  %place = call i64 @place_of(ptr %known, i64 %count, ptr %one)
  %is.it = icmp eq i64 %place, %wanted
  %is.new = icmp eq i64 %place, %count
  %is.room = icmp ult i64 %count, 64
  %may.add = and i1 %is.it, %is.new
  br i1 %may.add, label %new, label %done
new:
  br i1 %is.room, label %add, label %no
add:
  %at = getelementptr ptr, ptr %known, i64 %count
  store ptr %one, ptr %at, align 8
  %more = add i64 %count, 1
  store i64 %more, ptr %many, align 8
  br label %done
done:
  ret i1 %is.it
no:
  ret i1 false
}

; Whether those of some numbers are one object that were.
define internal i1 @are_numbers(ptr %c, ptr %objects, i64 %count, ptr %places) {
entry:
  %known = alloca [64 x ptr], align 8
  %many = alloca i64, align 8
  store i64 0, ptr %many, align 8
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %look ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %yes
look:
  %one = call ptr @item(ptr %c, ptr %objects, i64 %n)
  %wanted = call i64 @word_at(ptr %places, i64 %n)
  %is.placed = call i1 @is_placed(ptr %known, ptr %many, i64 %wanted, ptr %one)
  %after = add i64 %n, 1
  br i1 %is.placed, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Put down the different doubts of tensors; whether those are in doubt of the same that were.
define internal i1 @are_doubts(ptr %c, ptr %objects, i64 %count, ptr %places, ptr %known, ptr %many) {
entry:
  store i64 0, ptr %many, align 8
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %look ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %yes
look:
  %one = call ptr @item(ptr %c, ptr %objects, i64 %n)
  %doubt = call ptr @slot(ptr %c, i32 32, ptr %one)
  %wanted = call i64 @word_at(ptr %places, i64 %n)
  %is.placed = call i1 @is_placed(ptr %known, ptr %many, i64 %wanted, ptr %doubt)
  %after = add i64 %n, 1
  br i1 %is.placed, label %next, label %no
yes:
  ret i1 true
no:
  store i64 0, ptr %many, align 8
  ret i1 false
}

; Owned: a list of an owned object and some others; null with an error.
define internal ptr @listed(ptr %c, ptr %first, ptr %others, i64 %count) {
entry:
  %new = call ptr @field(ptr %c, i64 10)
  %set = call ptr @field(ptr %c, i64 18)
  %size = add i64 %count, 1
  %made = call ptr %new(i64 %size)
  %none = icmp eq ptr %made, null
  br i1 %none, label %failed, label %begin
begin:
  %was.set = call i32 %set(ptr %made, i64 0, ptr %first)
  br label %next
next:
  %n = phi i64 [ 0, %begin ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %put, label %done
put:
  %at = getelementptr ptr, ptr %others, i64 %n
  %one = load ptr, ptr %at, align 8
  call void @hold(ptr %c, ptr %one)
  %after = add i64 %n, 1
  %was.put = call i32 %set(ptr %made, i64 %after, ptr %one)
  br label %next
done:
  ret ptr %made
failed:
  call void @drop(ptr %c, ptr %first)
  ret ptr null
}

; Whether a list has so many items or more.
define internal i1 @has_size(ptr %c, ptr %objects, i64 %count) {
entry:
  %lists = call ptr @field(ptr %c, i64 21)
  %class = call ptr @class_of(ptr %c, ptr %objects)
  %is.list = icmp eq ptr %class, %lists
  br i1 %is.list, label %ask, label %no
ask:
  %size = call i64 @size_of(ptr %c, ptr %objects)
  %are.there = icmp sge i64 %size, %count
  ret i1 %are.there
no:
  ret i1 false
}

; Write the words of the numbers that launches take, of which each says its position and its kind.
define internal i1 @are_written(ptr %c, ptr %numbers, ptr %wanted, i64 %count, ptr %words) {
entry:
  %floats = call ptr @field(ptr %c, i64 25)
  %integers = call ptr @field(ptr %c, i64 26)
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %write ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %write, label %yes
write:
  %pair = mul i64 %n, 2
  %second = add i64 %pair, 1
  %position = call i64 @word_at(ptr %wanted, i64 %pair)
  %kind = call i64 @word_at(ptr %wanted, i64 %second)
  %one = call ptr @item(ptr %c, ptr %numbers, i64 %position)
  %value = call ptr @slot(ptr %c, i32 36, ptr %one)
  %at = getelementptr i64, ptr %words, i64 %n
  %is.written = call i1 @number_word(
    ptr %c, ptr %value, ptr %floats, ptr %integers, i64 %kind, ptr %at)
  %after = add i64 %n, 1
  br i1 %is.written, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Given how the first operands were, tensors and numbers, and what there is now: a list of the bytes of the tensors' addresses and of
; the numbers that launches take, and behind these the different doubts of the tensors, where those are
; in doubt of the same that were.
; How they were are words: how many tensors and numbers there are, how many numbers launches take, and how
; many tensors are asked for their doubts; of each tensor its layout; of each number, and of each doubt,
; its place among the different ones; of each number that launches take its position, and its kind.
define ptr @gather(ptr %self, ptr %arguments, i64 %given) {
entry:
  %doubts = alloca [64 x ptr], align 8
  %many = alloca i64, align 8
  ; Where the bytes of a bytes object begin, `native_call.py` has found out, and puts it here.
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %tensors.at = getelementptr ptr, ptr %arguments, i64 1
  %numbers.at = getelementptr ptr, ptr %arguments, i64 2
  %form = load ptr, ptr %arguments, align 8
  %tensors = load ptr, ptr %tensors.at, align 8
  %numbers = load ptr, ptr %numbers.at, align 8
  %new = call ptr @field(ptr %c, i64 14)
  %words = call ptr @bytes_of(ptr %c, ptr %form)
  %count = call i64 @word_at(ptr %words, i64 0)
  %number.count = call i64 @word_at(ptr %words, i64 1)
  %taken.count = call i64 @word_at(ptr %words, i64 2)
  %doubt.count = call i64 @word_at(ptr %words, i64 3)
  %layouts = getelementptr i64, ptr %words, i64 4
  %places = getelementptr i64, ptr %layouts, i64 %count
  %doubt.places = getelementptr i64, ptr %places, i64 %number.count
  %taken = getelementptr i64, ptr %doubt.places, i64 %doubt.count
  %are.so.many = call i1 @has_size(ptr %c, ptr %tensors, i64 %count)
  %have.numbers = call i1 @has_size(ptr %c, ptr %numbers, i64 %number.count)
  %may.be = and i1 %are.so.many, %have.numbers
  br i1 %may.be, label %look, label %other
look:
  %are.same = call i1 @are_numbers(ptr %c, ptr %numbers, i64 %number.count, ptr %places)
  br i1 %are.same, label %make, label %other
make:
  %made.count = add i64 %count, %taken.count
  %nbytes = mul i64 %made.count, 8
  %made = call ptr %new(ptr null, i64 %nbytes)
  %none = icmp eq ptr %made, null
  br i1 %none, label %failed, label %find
find:
  %buffers = call ptr @bytes_of(ptr %c, ptr %made)
  %lie.so = call i1 @are_tensors(ptr %c, ptr %tensors, i64 %count, ptr %layouts, ptr %buffers)
  br i1 %lie.so, label %address, label %undo
address:
  %are.known = call i1 @are_addressed(ptr %c, ptr %buffers, i64 %count)
  %of.numbers = getelementptr i64, ptr %buffers, i64 %count
  br i1 %are.known, label %number, label %undo
number:
  %are.written = call i1 @are_written(
    ptr %c, ptr %numbers, ptr %taken, i64 %taken.count, ptr %of.numbers)
  br i1 %are.written, label %doubt, label %undo
doubt:
  %are.so = call i1 @are_doubts(
    ptr %c, ptr %tensors, i64 %doubt.count, ptr %doubt.places, ptr %doubts, ptr %many)
  %different = load i64, ptr %many, align 8
  %result = call ptr @listed(ptr %c, ptr %made, ptr %doubts, i64 %different)
  ret ptr %result
undo:
  call void @drop(ptr %c, ptr %made)
  br label %other
other:
  call void @forget_error(ptr %c)
  %nothing = call ptr @field(ptr %c, i64 20)
  call void @hold(ptr %c, ptr %nothing)
  ret ptr %nothing
failed:
  ret ptr null
}
