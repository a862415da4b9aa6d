package find

// Weights lets tests fit the weights.
var Weights = &weights

// FieldWeights are the weights of the fields.
var FieldWeights = &fieldWeights

func (f fieldWeight) Weight() float64 { return f.weight }
func (f fieldWeight) B() float64      { return f.b }
