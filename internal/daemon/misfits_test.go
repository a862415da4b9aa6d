package daemon

import (
	"slices"
	"testing"
)

// What stays wrong is told once. What comes back is told again.
func TestMisfitsAreToldOnce(t *testing.T) {
	t.Parallel()
	var m misfits
	for i, tt := range []struct{ all, want []string }{
		{[]string{"a", "b"}, []string{"a", "b"}}, {[]string{"a", "b"}, nil}, {[]string{"b", "c"}, []string{"c"}}, {nil, nil}, {[]string{"b"}, []string{"b"}},
	} {
		if got := m.news(tt.all); !slices.Equal(got, tt.want) {
			t.Errorf("%d: %q, want %q", i, got, tt.want)
		}
	}
}
