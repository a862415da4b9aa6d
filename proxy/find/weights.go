package find

// fieldWeights are the weights of the fields and how much their length counts, both as
// in BM25F.
var fieldWeights = [fields]struct{ weight, b float64 }{
	fieldName:         {4, 0.5},
	fieldTitle:        {3, 0.5},
	fieldFirst:        {2, 0.5},
	fieldRest:         {1, 0.7},
	fieldArgument:     {1, 0.6},
	fieldArgumentText: {0.5, 0.7},
	fieldEnum:         {0.4, 0.7},
}

// serverNameWeight is how much a word of the name of a server counts more than one of
// its instructions.
const serverNameWeight = 3

// tuning are the other weights.
type tuning struct {
	k1            float64
	serverK1      float64
	serverB       float64
	server        float64 // of the words of the server
	serverTools   float64 // of the tools of the server
	relation      [4]float64
	part          float64 // of one word of an entry of several
	similar       float64 // of a word that is only spelled alike
	verb          float64 // of a word that is a common verb
	cover         float64 // of the part of the query that matches
	nameCover     float64 // of the part of the name that matches
	action        float64 // of an item that reads when the query reads
	actionAgainst float64 // of an item that writes when the query reads
	step          float64 // of the best step, against the whole query
	floor         float64 // part of the best score that a match needs
}

var weights = tuning{
	k1: 1.2, serverK1: 1.2, serverB: 0.5, server: 0.5, serverTools: 0.1,
	relation: [4]float64{0.9, 0.6, 0.4, 0.25},
	part:     0.6, similar: 0.6, verb: 0.6, cover: 0.3, nameCover: 0.2,
	action: 0.03, actionAgainst: 0.05, step: 0.8, floor: 0.1,
}
