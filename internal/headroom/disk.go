package headroom

import "fmt"

// diskMargin is how much more than the threshold must be free before a shortage can
// end, as a share of it.
const diskMargin = 0.5

// Disk returns a meter of the free space on the disk of a folder, for the user of this
// process. It is tight with less than least bytes, or less than percent of the disk;
// zeros disable a threshold.
func Disk(dir string, least uint64, percent float64) Meter {
	return Meter{Name: "disk of " + dir, Read: func() (Reading, error) {
		free, size, err := space(dir)
		if err != nil {
			return Reading{}, fmt.Errorf("room on the disk of %s: %w", dir, err)
		}
		return room(free, size, least, percent), nil
	}}
}

// room returns the reading for this free space.
func room(free, size, least uint64, percent float64) Reading {
	threshold := max(float64(least), float64(size)*percent/100)
	r := Reading{Text: fmt.Sprintf("%s of %s are free, the threshold is %s", bytes(free), bytes(size), bytes(uint64(threshold)))}
	switch {
	case float64(free) < threshold:
		r.Level = Tight
	case float64(free) >= threshold*(1+diskMargin):
		r.Level = Clear
	}
	return r
}
