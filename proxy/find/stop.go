package find

import "strings"

// stopWords are words that say nothing about a tool: function words, and how people and
// models ask for help.
var stopWords = wordSet(`
a an the and or but if then else so nor yet of at by for with about against between into
through during before after above below to from up down in out on off over under again
further once here there when where why how all any both each few more most other some
such no not only own same than too very can could will would shall should may might must
i me my mine myself we us our ours ourselves you your yours yourself he him his she her
hers it its itself they them their theirs what which who whom whose this that these those
am is are was were be been being have has had having do does did doing done
as because until while just also there's let lets s t don now ever even still already
please kindly help assist want wants wanted need needs needed like would'd wish able
hi hello hey thanks thank ok okay yes sure
d ll m o re ve doesn didn isn aren wasn weren won wouldn couldn shouldn hasn haven
i'm i'd i'll it's that's
someone something anything everything somebody anybody everyone
tell know looking look seeking interested possible
etc eg ie via per
us using use used uses
`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		set[w] = true
	}
	return set
}
