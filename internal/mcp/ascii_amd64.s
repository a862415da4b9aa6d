#include "textflag.h"

// func plainAVX2(b []byte) int
//
// It compares 32 bytes at a time with a quote and a backslash, and, as signed numbers, with a
// space: control characters are less than that, and so are all bytes from 0x80.
TEXT ·plainAVX2(SB), NOSPLIT, $0-32
	MOVQ b_base+0(FP), SI
	MOVQ b_len+8(FP), CX
	XORQ AX, AX
	ANDQ $-32, CX
	JZ   done

	MOVL         $0x22222222, DX // quotes
	VMOVD        DX, X1
	VPBROADCASTD X1, Y1
	MOVL         $0x5c5c5c5c, DX // backslashes
	VMOVD        DX, X2
	VPBROADCASTD X2, Y2
	MOVL         $0x20202020, DX // spaces
	VMOVD        DX, X3
	VPBROADCASTD X3, Y3

next:
	VMOVDQU   (SI)(AX*1), Y0
	VPCMPEQB  Y0, Y1, Y4
	VPCMPEQB  Y0, Y2, Y5
	VPCMPGTB  Y0, Y3, Y6 // space > byte
	VPOR      Y4, Y5, Y4
	VPOR      Y4, Y6, Y4
	VPMOVMSKB Y4, DX
	TESTL     DX, DX
	JNZ       found
	ADDQ      $32, AX
	CMPQ      AX, CX
	JLT       next
	JMP       clear

found:
	BSFL DX, DX
	ADDQ DX, AX

clear:
	VZEROUPPER

done:
	MOVQ AX, ret+24(FP)
	RET
