; The commands of a program with its operands in them.
;
; It stands behind `operands.ll`, whose table it has.

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Where a buffer begins, or the block of a lease, which will be one.
define internal i64 @address_to_be(ptr %c, ptr %object) {
entry:
  %leases = call ptr @field(ptr %c, i64 27)
  %class = call ptr @class_of(ptr %c, ptr %object)
  %is.lease = icmp eq ptr %class, %leases
  br i1 %is.lease, label %lease, label %buffer
lease:
  %block = call ptr @slot(ptr %c, i32 37, ptr %object)
  %begin = call i64 @number_in(ptr %c, i32 38, ptr %block)
  ret i64 %begin
buffer:
  %address = call i64 @address_of(ptr %c, ptr %object)
  ret i64 %address
}

; Put down the words of numbers, or the addresses of buffers; false with an error.
define internal i1 @are_put(ptr %c, ptr %objects, i64 %count, ptr %words, i1 %are.buffers) {
entry:
  %error = call ptr @field(ptr %c, i64 19)
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %look, label %ask
look:
  %one = call ptr @item(ptr %c, ptr %objects, i64 %n)
  br i1 %are.buffers, label %buffer, label %number
buffer:
  %address = call i64 @address_to_be(ptr %c, ptr %one)
  br label %put
number:
  %value = call i64 @integer_of(ptr %c, ptr %one)
  br label %put
put:
  %word = phi i64 [ %address, %buffer ], [ %value, %number ]
  call void @put_word(ptr %words, i64 %n, i64 %word)
  %after = add i64 %n, 1
  br label %next
ask:
  %found = call ptr %error()
  %is.good = icmp eq ptr %found, null
  ret i1 %is.good
}

; Put down where parts begin, of which each says its buffer by number and how far in it that is.
define internal void @put_parts(ptr %parts, i64 %count, ptr %buffers, ptr %words) {
entry:
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %put, label %done
put:
  %pair = mul i64 %n, 2
  %second = add i64 %pair, 1
  %which = call i64 @word_at(ptr %parts, i64 %pair)
  %offset = call i64 @word_at(ptr %parts, i64 %second)
  %begin = call i64 @word_at(ptr %buffers, i64 %which)
  %address = add i64 %begin, %offset
  call void @put_word(ptr %words, i64 %n, i64 %address)
  %after = add i64 %n, 1
  br label %next
done:
  ret void
}

; Put values, each by its number, into the words of commands: pairs say which word is which value.
define internal void @put_values(ptr %pairs, i64 %count, ptr %values, ptr %words) {
entry:
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %put ]
  %is.more = icmp slt i64 %n, %count
  br i1 %is.more, label %put, label %done
put:
  %pair = mul i64 %n, 2
  %second = add i64 %pair, 1
  %at = call i64 @word_at(ptr %pairs, i64 %pair)
  %which = call i64 @word_at(ptr %pairs, i64 %second)
  %value = call i64 @word_at(ptr %values, i64 %which)
  call void @put_word(ptr %words, i64 %at, i64 %value)
  %after = add i64 %n, 1
  br label %next
done:
  ret void
}

; A function of CPython's too.  Given the bytes of commands, those of pairs of words (which word of the
; commands is which value), the bytes of the inputs' values, the list of the buffers,
; the bytes of pairs of words (of a part its buffer, and how far in it that is), and a list of whole
; numbers: the bytes of the commands with the values, which are all of these in this order.
define ptr @write(ptr %self, ptr %arguments, i64 %given) {
entry:
  %c = getelementptr i8, ptr %self, i64 BYTES_BEGIN
  %pairs.at = getelementptr ptr, ptr %arguments, i64 1
  %inputs.at = getelementptr ptr, ptr %arguments, i64 2
  %buffers.at = getelementptr ptr, ptr %arguments, i64 3
  %parts.at = getelementptr ptr, ptr %arguments, i64 4
  %rest.at = getelementptr ptr, ptr %arguments, i64 5
  %commands = load ptr, ptr %arguments, align 8
  %pairs = load ptr, ptr %pairs.at, align 8
  %inputs = load ptr, ptr %inputs.at, align 8
  %buffers = load ptr, ptr %buffers.at, align 8
  %parts = load ptr, ptr %parts.at, align 8
  %rest = load ptr, ptr %rest.at, align 8
  %new = call ptr @field(ptr %c, i64 14)
  %size = call i64 @size_of(ptr %c, ptr %commands)
  %pairs.size = call i64 @size_of(ptr %c, ptr %pairs)
  %inputs.size = call i64 @size_of(ptr %c, ptr %inputs)
  %buffer.count = call i64 @size_of(ptr %c, ptr %buffers)
  %parts.size = call i64 @size_of(ptr %c, ptr %parts)
  %rest.count = call i64 @size_of(ptr %c, ptr %rest)
  %pair.count = sdiv i64 %pairs.size, 16
  %input.count = sdiv i64 %inputs.size, 8
  %part.count = sdiv i64 %parts.size, 16
  %known.count = add i64 %input.count, %buffer.count
  %placed.count = add i64 %known.count, %part.count
  %value.count = add i64 %placed.count, %rest.count
  %values.size = mul i64 %value.count, 8
  %held = call ptr %new(ptr null, i64 %values.size)
  %no.values = icmp eq ptr %held, null
  br i1 %no.values, label %failed, label %fill
fill:
  %values = call ptr @bytes_of(ptr %c, ptr %held)
  %of.inputs = call ptr @bytes_of(ptr %c, ptr %inputs)
  call void @llvm.memcpy.p0.p0.i64(ptr %values, ptr %of.inputs, i64 %inputs.size, i1 false)
  %of.buffers = getelementptr i64, ptr %values, i64 %input.count
  %are.there = call i1 @are_put(
    ptr %c, ptr %buffers, i64 %buffer.count, ptr %of.buffers, i1 true)
  br i1 %are.there, label %place, label %lost
place:
  %of.parts = getelementptr i64, ptr %of.buffers, i64 %buffer.count
  %parts.bytes = call ptr @bytes_of(ptr %c, ptr %parts)
  call void @put_parts(ptr %parts.bytes, i64 %part.count, ptr %of.buffers, ptr %of.parts)
  %of.rest = getelementptr i64, ptr %of.parts, i64 %part.count
  %are.words = call i1 @are_put(ptr %c, ptr %rest, i64 %rest.count, ptr %of.rest, i1 false)
  br i1 %are.words, label %make, label %lost
make:
  %before = call ptr @bytes_of(ptr %c, ptr %commands)
  %made = call ptr %new(ptr %before, i64 %size)
  %none = icmp eq ptr %made, null
  br i1 %none, label %lost, label %write
write:
  %words = call ptr @bytes_of(ptr %c, ptr %made)
  %pairs.bytes = call ptr @bytes_of(ptr %c, ptr %pairs)
  call void @put_values(ptr %pairs.bytes, i64 %pair.count, ptr %values, ptr %words)
  call void @drop(ptr %c, ptr %held)
  ret ptr %made
lost:
  call void @drop(ptr %c, ptr %held)
  br label %failed
failed:
  ret ptr null
}
