package find

// action is what a tool does, or what a query asks for, by its verb.
type action uint8

const (
	actionUnknown action = iota
	actionRead
	actionWrite
	actionDelete
)

// actions maps verbs to what they do.
var actions = func() map[string]action {
	m := map[string]action{}
	for a, verbs := range map[action]string{
		actionRead: `get list search find show read fetch query look lookup view describe check retrieve
			count compare analyze analyse inspect watch explain summarize summarise display browse
			see monitor validate verify calculate compute estimate convert translate what who which
			when where how many is are export preview scan diff status info history download`,
		actionWrite: `create add new make insert open write save set update edit change modify patch put
			post send reply comment publish upload move rename copy merge assign attach start run
			execute launch deploy restart enable disable approve invite schedule book append register
			submit push commit close reopen lock subscribe apply import replace trigger connect
			generate build draw render design compose notify tell inform message email share fill click type`,
		actionDelete: `delete remove drop destroy erase clear purge uninstall revoke unsubscribe cancel kill
			terminate stop clean wipe reset unassign detach`,
	} {
		for w := range wordSet(verbs) {
			m[w] = a
		}
	}
	return m
}()

// actionOf returns what the first known verb of a name does.
func actionOf(name string) action {
	var s splitter
	found, left := actionUnknown, 3
	s.split(name, func(word []byte) bool {
		found = actions[string(word)]
		left--
		return found == actionUnknown && left > 0
	})
	return found
}
