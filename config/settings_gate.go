package config

// Gate is the authorization chain as a whole.
type Gate struct {
	// Open says that everyone known may call everything enabled. Absent: no.
	Open bool `config:"open"`
}
