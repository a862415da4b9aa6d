package gate

// RequestTime, ViewTime and MaxViews are limits of the cache.
const (
	RequestTime = requestTime
	ViewTime    = viewTime
	MaxViews    = maxViews
)

// CachedLists returns how many lists and items are cached, and their sum as the cache
// counts it.
func (c *Chain) CachedLists() (lists, items, counted int) {
	c.cache.mu.RLock()
	defer c.cache.mu.RUnlock()
	for _, l := range c.cache.lists {
		items += l.size()
	}
	return len(c.cache.lists), items, c.cache.views
}

// MaxSelectionClasses is exported for tests.
const MaxSelectionClasses = maxSelectionClasses

// Classes returns how many classes the selection remembers.
func (s *Selection) Classes() int { return len(s.viewed) }
