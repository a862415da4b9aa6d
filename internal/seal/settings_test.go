package seal

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
)

func TestDecodeKey(t *testing.T) {
	raw := strings.Repeat("\xf1k", 16)
	long := raw + "more"
	tests := []struct {
		name, text, want string
	}{
		{"raw", raw, raw},
		{"hexadecimal", hex.EncodeToString([]byte(raw)), raw},
		{"upper case, white space around", " " + strings.ToUpper(hex.EncodeToString([]byte(raw))) + "\r\n", raw},
		{"base64", base64.StdEncoding.EncodeToString([]byte(long)) + "\n", long},
		{"base64 without padding", base64.RawStdEncoding.EncodeToString([]byte(raw)), raw},
		{"base64 for URLs", base64.URLEncoding.EncodeToString([]byte(raw)), raw},
		{"base64 for URLs without padding", base64.RawURLEncoding.EncodeToString([]byte(long)), long},
		{"empty", "", ""},
		{"white space", " \n", ""},
		{"one byte short", raw[1:], ""},
		{"hexadecimal of 31 bytes", hex.EncodeToString([]byte(raw[1:])), ""},
		{"hexadecimal of 16 bytes has 32 characters", strings.Repeat("0f", 16), ""},
		{"the same with a newline", strings.Repeat("0f", 16) + "\n", ""},
		{"base64 of 31 bytes", base64.StdEncoding.EncodeToString([]byte(raw[1:])), ""},
		{"neither", strings.Repeat("!", 64), ""},
	}
	for _, tt := range tests {
		got, err := decodeKey(tt.text)
		if string(got) != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
	}
}
