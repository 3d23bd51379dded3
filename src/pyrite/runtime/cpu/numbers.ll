; Numbers of Python's as the words that launches take.
;
; It stands behind the texts that have `%c`.

declare double @llvm.fabs.f64(double)

; Write the word of a float or a whole number, as a kind: 0 float32, 1 float64, 2 int32, 3 int64, 4 uint32.
; False for one that Python has to look at.
define internal i1 @number_word(
  ptr %c, ptr %value, ptr %float.class, ptr %int.class, i64 %kind, ptr %word) {
entry:
  %class = call ptr @class_of(ptr %c, ptr %value)
  %is.float = icmp eq ptr %class, %float.class
  %is.int = icmp eq ptr %class, %int.class
  %takes.int = icmp uge i64 %kind, 2
  br i1 %is.float, label %a.float, label %not.float
a.float:
  br i1 %takes.int, label %refuse, label %double
double:
  %given = call double @double_of(ptr %c, ptr %value)
  br label %floating
not.float:
  br i1 %is.int, label %an.int, label %refuse
an.int:
  %whole = call i64 @integer_of(ptr %c, ptr %value)
  %may.fail = icmp eq i64 %whole, -1
  br i1 %may.fail, label %asked, label %fits
asked:
  %occurred = call ptr @field(ptr %c, i64 19)
  %error = call ptr %occurred()
  %is.fine = icmp eq ptr %error, null
  br i1 %is.fine, label %fits, label %too.large
too.large:
  call void @forget_error(ptr %c)
  br label %refuse
fits:
  br i1 %takes.int, label %integer, label %to.float
to.float:
  ; Whole numbers of so many bits are of the dtype.
  %is.single.0 = icmp eq i64 %kind, 0
  %most = select i1 %is.single.0, i64 16777216, i64 9007199254740992
  %least = sub i64 0, %most
  %is.below = icmp slt i64 %whole, %most
  %is.above = icmp sgt i64 %whole, %least
  %is.exact = and i1 %is.below, %is.above
  br i1 %is.exact, label %exact, label %refuse
exact:
  %as.double = sitofp i64 %whole to double
  br label %floating
floating:
  %x = phi double [ %given, %double ], [ %as.double, %exact ]
  %is.single = icmp eq i64 %kind, 0
  br i1 %is.single, label %single, label %store.double
single:
  ; 3e38, less than the greatest float32.
  %size = call double @llvm.fabs.f64(double %x)
  %is.small = fcmp olt double %size, 0x47EC363CBF21F28A
  br i1 %is.small, label %store.single, label %refuse
store.single:
  %short = fptrunc double %x to float
  %short.bits = bitcast float %short to i32
  %single.bits = zext i32 %short.bits to i64
  store i64 %single.bits, ptr %word, align 1
  ret i1 true
store.double:
  %double.bits = bitcast double %x to i64
  store i64 %double.bits, ptr %word, align 1
  ret i1 true
integer:
  %is.wide = icmp eq i64 %kind, 3
  br i1 %is.wide, label %store.wide, label %narrow
narrow:
  %is.unsigned = icmp eq i64 %kind, 4
  %low = trunc i64 %whole to i32
  %with.sign = sext i32 %low to i64
  %without.sign = zext i32 %low to i64
  %again = select i1 %is.unsigned, i64 %without.sign, i64 %with.sign
  %is.narrow = icmp eq i64 %again, %whole
  br i1 %is.narrow, label %store.narrow, label %refuse
store.narrow:
  %narrow.bits = zext i32 %low to i64
  store i64 %narrow.bits, ptr %word, align 1
  ret i1 true
store.wide:
  store i64 %whole, ptr %word, align 1
  ret i1 true
refuse:
  ret i1 false
}
