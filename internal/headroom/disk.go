package headroom

import "fmt"

// diskMargin is by how much of itself more than the threshold has to be free to
// be clear of it.
const diskMargin = 0.5

// Disk reads how much is free on the disk of a folder, for the user of this
// process. With less than least bytes, or less than percent of the disk, it is
// tight; zeros are no thresholds.
func Disk(dir string, least uint64, percent float64) Meter {
	return Meter{Name: "disk of " + dir, Read: func() (Reading, error) {
		free, size, err := space(dir)
		if err != nil {
			return Reading{}, fmt.Errorf("room on the disk of %s: %w", dir, err)
		}
		return room(free, size, least, percent), nil
	}}
}

// room is a reading of what is free on a disk.
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
