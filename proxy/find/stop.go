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

// weakWords are words that say little about a tool, because they fit any request. They
// count less than others.
var weakWords = wordSet(`
getting provide provides provided give gives given get gets got getting make makes making made take takes
find finding found show shows showing tell go going come bring put let see say said ask asks asking
try trying keep start begin work works working help helps helpful helping assist assistance assisting
think believe understand understanding learn share guide recommend suggest suggestion suggestions
recommendation recommendations explain discover offer offers include includes including included
contain contains consider considering relate related relating regarding concerning based according
allow allows enable enables ensure require requires required support supports
follow following involve choose decide improve increase achieve avoid handle deal
information info detail details detailed thing things way ways kind kinds type types sort sorts
example examples option options idea ideas tip tips advice part parts area areas piece pieces aspect aspects
number numbers lot lots bit amount list lists set sets range variety series group case cases point points
purpose goal reason reasons problem problems issue issues question questions answer answers solution solutions
result results effect effects situation process step steps method methods approach
tool tools plugin plugins app apps application applications feature features function functions
capability platform service services resource resources product products system
user users person people someone friend friends family individual individuals everyone
good great best better nice new newest latest recent current currently popular top important key main
specific specifically particular particularly certain special unique different various several many multiple
available accurate effective effectively efficient easy easily simple simply quick quickly fast
interesting interested useful relevant appropriate suitable proper reliable comprehensive complete full
high higher highest low lower lowest large big small long short old first last next second one two three
whole entire total overall general common real right correct exact exactly directly
able potential possible likely sure certain necessary
today tomorrow yesterday now day days week weeks month months year years time times date soon
ability access additional additionally also always another around away back become best both change
content context create current data different due either
especially fully generally here however instead involving know latest least level like
look looking love lookup meet much must name names near need never often once online open
others otherwise overall own page perform place plan please prefer preferably properly quite
really save seem send should since sites site still such text together
trying under unless upon upcoming via want well whether whose within without world would yet
personal personalized custom customized professional high-quality quality
`)
