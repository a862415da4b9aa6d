package batch

// MaxWaiting is how many may wait for their turn.
const MaxWaiting = maxWaiting
