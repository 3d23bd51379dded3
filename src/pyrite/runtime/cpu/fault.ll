; What a process says that dies because a kernel touched memory that it may not.
;
; The handler writes what was being launched, and which operand the address is next to, and puts the
; handler back that was there before.  Then it returns: the instruction faults again, and all goes
; on as it would have.  It calls nothing that a signal's handler may not call.
;
; table, in words:
;   0 text   1 length of it, 0 while nothing is launched   2 count of places
;   3 ...  of each place: its first address, the address after its last, text, length of it

declare i64 @write(i32, ptr, i64)
declare i32 @sigaction(i32, ptr, ptr)

@table = global ptr null
@previous = global [256 x i8] zeroinitializer, align 16

define void @on_fault(i32 %signal, ptr %info, ptr %context) {
entry:
  %restored = call i32 @sigaction(i32 %signal, ptr @previous, ptr null)
  %table = load ptr, ptr @table, align 8
  %length.at = getelementptr i64, ptr %table, i64 1
  %length = load i64, ptr %length.at, align 8
  %is.idle = icmp eq i64 %length, 0
  br i1 %is.idle, label %done, label %say
say:
  %text = load ptr, ptr %table, align 8
  %said = call i64 @write(i32 2, ptr %text, i64 %length)
  %address.at = getelementptr i8, ptr %info, i64 16
  %address = load i64, ptr %address.at, align 8
  %count.at = getelementptr i64, ptr %table, i64 2
  %count = load i64, ptr %count.at, align 8
  br label %look
look:
  %i = phi i64 [ 0, %say ], [ %next, %go.on ]
  %is.there = icmp ult i64 %i, %count
  br i1 %is.there, label %compare, label %done
compare:
  %skip = mul i64 %i, 4
  %word = add i64 %skip, 3
  %place = getelementptr i64, ptr %table, i64 %word
  %low = load i64, ptr %place, align 8
  %high.at = getelementptr i64, ptr %place, i64 1
  %high = load i64, ptr %high.at, align 8
  %is.above = icmp uge i64 %address, %low
  %is.below = icmp ult i64 %address, %high
  %is.inside = and i1 %is.above, %is.below
  br i1 %is.inside, label %name, label %go.on
name:
  %name.at = getelementptr i64, ptr %place, i64 2
  %name.text = load ptr, ptr %name.at, align 8
  %name.length.at = getelementptr i64, ptr %place, i64 3
  %name.length = load i64, ptr %name.length.at, align 8
  %named = call i64 @write(i32 2, ptr %name.text, i64 %name.length)
  br label %go.on
go.on:
  %next = add i64 %i, 1
  br label %look
done:
  ret void
}
