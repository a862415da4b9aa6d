package text

import "github.com/toolgate/toolgate/native/group"

// Settings are the section native.util: it serves text tools. The group needs nothing,
// so that it is on as "util: {}".
type Settings struct{ group.Confined }
