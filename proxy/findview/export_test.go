package findview

import "log/slog"

// Next builds the index of the latest catalog.
func (x *Index[K]) Next(log *slog.Logger) { x.next(log) }
