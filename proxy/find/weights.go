package find

// fieldWeights are the weights of the fields.
var fieldWeights = [fields]fieldWeight{
	fieldName:         {5.5, 0.5},
	fieldTitle:        {3, 0.5},
	fieldFirst:        {2, 0.35},
	fieldRest:         {1, 0.7},
	fieldArgument:     {0.7, 0.4},
	fieldArgumentText: {0.5, 0.45},
	fieldEnum:         {0.4, 0.7},
}

// fieldWeight is how much a field counts in BM25F.
type fieldWeight struct {
	weight float64
	b      float64 // from 0 to 1: how much a word in a long field counts less
}

// serverNameWeight is how much more a word of the name of a server counts than one of
// its instructions.
const serverNameWeight = 3

// tuning are the other weights. They come from coordinate ascent on the halves of the
// development sets that are not held, rounded and corrected by hand with the figures of
// the whole sets.
type tuning struct {
	k1          float64    // of BM25F: how fast more of the same word stops to count
	serverK1    float64    // of BM25 over the servers
	serverB     float64    // of BM25 over the servers
	server      float64    // of the words of the server
	serverTools float64    // of how well the tools of the same server match
	relation    [4]float64 // of a related word, by relation
	part        float64    // of one word of an entry of several
	similar     float64    // of a word that is only spelled alike
	verb        float64    // of a common verb
	weak        float64    // of a word that fits any request
	number      float64    // of a number
	format      float64    // of a format of files, which is seldom what a tool is for
	rarer       float64    // how much of its rarity a word keeps that stands for a commoner one
	nameCover   float64    // of the part of the name that matches
	reads       float64    // of an item that reads when the step reads
	writes      float64    // against an item that writes when the step reads
	step        float64    // of the steps, against the whole query
	served      float64    // how much of a step a hit serves that matches it best
	twin        float64    // of a tool after one of the same name of another server
	least       float64    // part of the weight of the heaviest word below which words are left out
	floor       float64    // part of the best score that a match needs
}

var weights = tuning{
	k1: 2, serverK1: 1.2, serverB: 0.5, server: 0.5, serverTools: 0.15,
	relation: [4]float64{relationSame: 0.9, relationAlike: 0.5, relationWider: 0.5, relationNarrower: 0.18},
	part:     0.6, similar: 0.6, verb: 0.9, weak: 0.5, number: 0.3, format: 0.7, rarer: 0.5, nameCover: 0.4,
	reads: 0.05, writes: 0.15, step: 0.5, served: 0.9, twin: 0.8, least: 0.05, floor: 0.1,
}
