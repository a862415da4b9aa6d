package child

import "testing"

func TestBatchCommandLine(t *testing.T) {
	tests := []struct {
		name, want string
		args       []string
	}{
		{"plain", `cmd.exe /e:ON /v:OFF /d /s /c ""C:\a b\npx.cmd" "-y" "x""`, []string{"-y", "x"}},
		{"commands within", `cmd.exe /e:ON /v:OFF /d /s /c ""C:\a b\npx.cmd" "a&calc|b>c^d""`, []string{"a&calc|b>c^d"}},
		{"backslashes at the end", `cmd.exe /e:ON /v:OFF /d /s /c ""C:\a b\npx.cmd" "C:\x\\\\" """`, []string{`C:\x\\`, ""}},
		{"quote", "", []string{`a"b`}},
		{"percent", "", []string{"%PATH%"}},
		{"line break", "", []string{"a\nb"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := batchCommandLine(`C:\a b\npx.cmd`, tt.args)
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// wantEnviron is what a child sees of env.
func wantEnviron(env []string) []string { return env }
