target triple = "x86_64-unknown-linux-gnu"

define void @kernel(ptr %slots, i64 %begin, i64 %end) #0 {
entry:
  %v1 = getelementptr i64, ptr %slots, i64 0
  %v2 = load i64, ptr %v1, align 8
  %v3 = getelementptr i64, ptr %slots, i64 3
  %v4 = load ptr, ptr %v3, align 8
  %v5 = getelementptr i64, ptr %slots, i64 4
  %v6 = load ptr, ptr %v5, align 8
  %v7 = getelementptr i64, ptr %slots, i64 5
  %v8 = load float, ptr %v7, align 8
  %any = icmp ult i64 %begin, %end
  br i1 %any, label %group, label %done
group:
  %g = phi i64 [ %begin, %entry ], [ %g.next, %group.end ]
  %v9 = mul i64 %g, 1024
  %v10 = add i64 %v9, 1024
  %v12 = icmp slt i64 %v9, %v10
  br i1 %v12, label %loop11, label %after11
loop11:
  %v13 = phi i64 [ %v9, %group ], [ %v20, %loop11 ]
  %v14 = getelementptr float, ptr %v4, i64 %v13
  %v15 = load <8 x float>, ptr %v14, align 4
  %v16 = insertelement <8 x float> poison, float %v8, i64 0
  %v17 = shufflevector <8 x float> %v16, <8 x float> poison, <8 x i32> zeroinitializer
  %v18 = fmul <8 x float> %v15, %v17
  %v19 = getelementptr float, ptr %v6, i64 %v13
  store <8 x float> %v18, ptr %v19, align 4
  %v20 = add i64 %v13, 8
  %v21 = icmp slt i64 %v20, %v10
  br i1 %v21, label %loop11, label %after11
after11:
  br label %group.end
group.end:
  %g.next = add i64 %g, 1
  %more = icmp ult i64 %g.next, %end
  br i1 %more, label %group, label %done
done:
  ret void
}

attributes #0 = { nounwind "min-legal-vector-width"="256" "prefer-vector-width"="256" }
