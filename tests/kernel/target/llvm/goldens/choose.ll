target triple = "x86_64-unknown-linux-gnu"

declare i32 @llvm.abs.i32(i32, i1)

define void @kernel(ptr %slots, i64 %begin, i64 %end) #0 {
entry:
  %v1 = getelementptr i64, ptr %slots, i64 0
  %v2 = load i64, ptr %v1, align 8
  %v3 = getelementptr i64, ptr %slots, i64 3
  %v4 = load ptr, ptr %v3, align 8
  %v5 = getelementptr i64, ptr %slots, i64 4
  %v6 = load ptr, ptr %v5, align 8
  %v7 = getelementptr i64, ptr %slots, i64 5
  %v8 = load ptr, ptr %v7, align 8
  %any = icmp ult i64 %begin, %end
  br i1 %any, label %group, label %done
group:
  %g = phi i64 [ %begin, %entry ], [ %g.next, %group.end ]
  %v9 = trunc i64 %g to i32
  %v10 = trunc i64 %v2 to i32
  %v11 = getelementptr i8, ptr %v4, i32 %v9
  %v12 = load i8, ptr %v11, align 1
  %v13 = icmp ne i8 %v12, 0
  br i1 %v13, label %then14, label %else14
then14:
  %v15 = sdiv i32 %v9, 3
  br label %after14
else14:
  %v16 = sub i32 %v9, 10
  %v17 = call i32 @llvm.abs.i32(i32 %v16, i1 false)
  br label %after14
after14:
  %v18 = phi i32 [ %v15, %then14 ], [ %v17, %else14 ]
  %v19 = getelementptr i32, ptr %v6, i32 %v9
  store i32 %v18, ptr %v19, align 4
  %v20 = icmp sgt i32 %v9, 100
  br i1 %v20, label %failed21, label %after21
failed21:
  %v22 = atomicrmw umax ptr %v8, i32 1 monotonic
  br label %after21
after21:
  br label %group.end
group.end:
  %g.next = add i64 %g, 1
  %more = icmp ult i64 %g.next, %end
  br i1 %more, label %group, label %done
done:
  ret void
}

attributes #0 = { nounwind "min-legal-vector-width"="256" "prefer-vector-width"="256" }
