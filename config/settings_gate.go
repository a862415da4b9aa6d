package config

// Gate is the authorization chain as a whole.
type Gate struct {
	// Lets every known caller use everything that is enabled. Default: false.
	Open bool `config:"open"`
}
