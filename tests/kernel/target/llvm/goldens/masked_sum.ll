target triple = "x86_64-unknown-linux-gnu"

declare <8 x i16> @llvm.masked.load.v8i16.p0(ptr, i32, <8 x i1>, <8 x i16>)

define void @kernel(ptr %slots, i64 %begin, i64 %end) #0 {
entry:
  %v1 = getelementptr i64, ptr %slots, i64 0
  %v2 = load i64, ptr %v1, align 8
  %v3 = getelementptr i64, ptr %slots, i64 1
  %v4 = load i64, ptr %v3, align 8
  %v5 = getelementptr i64, ptr %slots, i64 3
  %v6 = load ptr, ptr %v5, align 8
  %v7 = getelementptr i64, ptr %slots, i64 4
  %v8 = load ptr, ptr %v7, align 8
  %v9 = getelementptr i64, ptr %slots, i64 5
  %v10 = load i32, ptr %v9, align 8
  %any = icmp ult i64 %begin, %end
  br i1 %any, label %group, label %done
group:
  %g = phi i64 [ %begin, %entry ], [ %g.next, %group.end ]
  %v11 = urem i64 %g, %v2
  %v12 = udiv i64 %g, %v2
  %v13 = trunc i64 %v11 to i32
  %v14 = trunc i64 %v12 to i32
  %v15 = trunc i64 %v2 to i32
  %v16 = trunc i64 %v4 to i32
  %v17 = mul i32 %v14, %v15
  %v18 = add i32 %v17, %v13
  %v20 = icmp slt i32 0, %v10
  br i1 %v20, label %loop19, label %after19
loop19:
  %v21 = phi i32 [ 0, %group ], [ %v42, %after33 ]
  %v22 = phi <8 x float> [ splat (float 0x0000000000000000), %group ], [ %v41, %after33 ]
  %v23 = insertelement <8 x i32> poison, i32 %v21, i64 0
  %v24 = shufflevector <8 x i32> %v23, <8 x i32> poison, <8 x i32> zeroinitializer
  %v25 = add <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v24
  %v26 = insertelement <8 x i32> poison, i32 %v10, i64 0
  %v27 = shufflevector <8 x i32> %v26, <8 x i32> poison, <8 x i32> zeroinitializer
  %v28 = icmp slt <8 x i32> %v25, %v27
  %v29 = mul i32 %v18, %v10
  %v30 = add i32 %v29, %v21
  %v31 = getelementptr i16, ptr %v6, i32 %v30
  %v32 = bitcast <8 x i1> %v28 to i8
  %v34 = icmp eq i8 %v32, -1
  br i1 %v34, label %whole33, label %ragged33
whole33:
  %v35 = load <8 x i16>, ptr %v31, align 2
  br label %after33
ragged33:
  %v36 = call <8 x i16> @llvm.masked.load.v8i16.p0(ptr %v31, i32 2, <8 x i1> %v28, <8 x i16> splat (i16 0))
  br label %after33
after33:
  %v37 = phi <8 x i16> [ %v35, %whole33 ], [ %v36, %ragged33 ]
  %v38 = zext <8 x i16> %v37 to <8 x i32>
  %v39 = shl <8 x i32> %v38, splat (i32 16)
  %v40 = bitcast <8 x i32> %v39 to <8 x float>
  %v41 = fadd <8 x float> %v22, %v40
  %v42 = add i32 %v21, 8
  %v43 = icmp slt i32 %v42, %v10
  br i1 %v43, label %loop19, label %after19
after19:
  %v44 = phi <8 x float> [ splat (float 0x0000000000000000), %group ], [ %v41, %after33 ]
  %v45 = extractelement <8 x float> %v44, i64 0
  %v46 = extractelement <8 x float> %v44, i64 1
  %v47 = fadd float %v45, %v46
  %v48 = extractelement <8 x float> %v44, i64 2
  %v49 = fadd float %v47, %v48
  %v50 = extractelement <8 x float> %v44, i64 3
  %v51 = fadd float %v49, %v50
  %v52 = getelementptr float, ptr %v8, i32 %v18
  store float %v51, ptr %v52, align 4
  br label %group.end
group.end:
  %g.next = add i64 %g, 1
  %more = icmp ult i64 %g.next, %end
  br i1 %more, label %group, label %done
done:
  ret void
}

attributes #0 = { nounwind "min-legal-vector-width"="256" "prefer-vector-width"="256" }
