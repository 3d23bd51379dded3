; The commands of a bundle with the addresses of its operands in them: what `filled` of `bundle.py` does.
;
; `execute` is a function of CPython's (METH_FASTCALL): self is the bytes of %Filling, its arguments are
; the bytes of the commands, those of pairs of words (which word of the commands is which operand), and
; the list of operands: buffers, parts of them, and whole numbers.  Where one is something else nothing
; was done, and the Python that does the same is called.
;
; Functions of objects stand in `objects.ll`.

%Filling = type {
  [20 x ptr], ; functions of the C API as in `call.ll`
  ; Objects.
  ptr, ; 20 the class of buffers
  ptr, ; 21 the class of parts of buffers
  ptr, ; 22 the class of whole numbers
  ptr, ; 23 the Python that does the same
  ; Bytes from the beginning of an object to its slots.
  i64, ; 24 any object: its class
  i64, ; 25 a buffer: address
  i64, ; 26 a part: base
  i64  ; 27 offset
}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; The number in a slot of a buffer, or a part.
define internal i64 @number_in(ptr %c, i32 %field, ptr %object) {
  %number = call ptr @slot(ptr %c, i32 %field, ptr %object)
  %value = call i64 @integer_of(ptr %c, ptr %number)
  ret i64 %value
}

; The word of an operand; 0, which is none's, where Python has to look.
define internal i64 @word_of(ptr %c, ptr %operand) {
entry:
  %buffers = call ptr @field(ptr %c, i64 20)
  %parts = call ptr @field(ptr %c, i64 21)
  %integers = call ptr @field(ptr %c, i64 22)
  %class = call ptr @class_of(ptr %c, ptr %operand)
  %is.part = icmp eq ptr %class, %parts
  br i1 %is.part, label %part, label %ask
part:
  %base = call ptr @slot(ptr %c, i32 26, ptr %operand)
  %base.class = call ptr @class_of(ptr %c, ptr %base)
  %is.usual = icmp eq ptr %base.class, %buffers
  br i1 %is.usual, label %add, label %unknown
add:
  %begin = call i64 @number_in(ptr %c, i32 25, ptr %base)
  %offset = call i64 @number_in(ptr %c, i32 27, ptr %operand)
  %address = add i64 %begin, %offset
  ret i64 %address
ask:
  %is.buffer = icmp eq ptr %class, %buffers
  br i1 %is.buffer, label %buffer, label %other
buffer:
  %of.buffer = call i64 @number_in(ptr %c, i32 25, ptr %operand)
  ret i64 %of.buffer
other:
  %is.integer = icmp eq ptr %class, %integers
  br i1 %is.integer, label %integer, label %unknown
integer:
  %value = call i64 @integer_of(ptr %c, ptr %operand)
  ret i64 %value
unknown:
  ret i64 0
}

; Whether Python has to look at an operand whose word is 0.
define internal i1 @is_zero(ptr %c, ptr %operand) {
  %integers = call ptr @field(ptr %c, i64 22)
  %class = call ptr @class_of(ptr %c, ptr %operand)
  %is.integer = icmp eq ptr %class, %integers
  ret i1 %is.integer
}

; The first 1,024 operands are asked for their words once: most go to several commands, and an object is
; waited for longer than a word.
define ptr @execute(ptr %self, ptr %arguments, i64 %given) {
entry:
  %known = alloca [1024 x i64], align 16
  ; Where the bytes of a bytes object begin, `native_call.py` has found out, and puts it here.
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %commands = load ptr, ptr %arguments, align 8
  %pairs.at = getelementptr ptr, ptr %arguments, i64 1
  %pairs.bytes = load ptr, ptr %pairs.at, align 8
  %operands.at = getelementptr ptr, ptr %arguments, i64 2
  %operands = load ptr, ptr %operands.at, align 8
  %new = call ptr @field(ptr %c, i64 14)
  %error = call ptr @field(ptr %c, i64 19)
  %size = call i64 @size_of(ptr %c, ptr %commands)
  %bytes = call ptr @bytes_of(ptr %c, ptr %commands)
  %pairs.size = call i64 @size_of(ptr %c, ptr %pairs.bytes)
  %count = sdiv i64 %pairs.size, 16
  %pairs = call ptr @bytes_of(ptr %c, ptr %pairs.bytes)
  %made = call ptr %new(ptr %bytes, i64 %size)
  %none = icmp eq ptr %made, null
  br i1 %none, label %failed, label %begin
begin:
  call void @llvm.memset.p0.i64(ptr align 16 %known, i8 0, i64 8192, i1 false)
  %words = call ptr @bytes_of(ptr %c, ptr %made)
  br label %next
next:
  %n = phi i64 [ 0, %begin ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %ask
look:
  %pair = mul i64 %n, 2
  %at.at = getelementptr i64, ptr %pairs, i64 %pair
  %at = load i64, ptr %at.at, align 8
  %which.at = getelementptr i64, ptr %at.at, i64 1
  %which = load i64, ptr %which.at, align 8
  %is.noted = icmp ult i64 %which, 1024
  %place = select i1 %is.noted, i64 %which, i64 0
  %known.at = getelementptr i64, ptr %known, i64 %place
  br i1 %is.noted, label %look.known, label %take
look.known:
  %before = load i64, ptr %known.at, align 8
  %was.asked = icmp ne i64 %before, 0
  br i1 %was.asked, label %put, label %take
take:
  %operand = call ptr @item(ptr %c, ptr %operands, i64 %which)
  %is.gone = icmp eq ptr %operand, null
  br i1 %is.gone, label %undo, label %find
find:
  %word = call i64 @word_of(ptr %c, ptr %operand)
  %is.nothing = icmp eq i64 %word, 0
  br i1 %is.nothing, label %look.again, label %note
note:
  br i1 %is.noted, label %keep, label %put
keep:
  store i64 %word, ptr %known.at, align 8
  br label %put
look.again:
  %is.number = call i1 @is_zero(ptr %c, ptr %operand)
  br i1 %is.number, label %put, label %undo
put:
  %filled = phi i64 [ %before, %look.known ], [ %word, %note ], [ %word, %keep ], [ 0, %look.again ]
  %word.at = getelementptr i64, ptr %words, i64 %at
  store i64 %filled, ptr %word.at, align 1
  %after = add i64 %n, 1
  br label %next
ask:
  ; A number that is no word of 64 bits.
  %found = call ptr %error()
  %is.good = icmp eq ptr %found, null
  br i1 %is.good, label %done, label %undo
done:
  ret ptr %made
undo:
  call void @drop(ptr %c, ptr %made)
  call void @forget_error(ptr %c)
  %slow = call ptr @field(ptr %c, i64 23)
  %by.python = call ptr @called(ptr %c, ptr %slow, ptr %arguments, i64 %given)
  ret ptr %by.python
failed:
  ret ptr null
}
