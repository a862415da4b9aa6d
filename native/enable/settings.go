package enable

// CallerLimits are the settings of the section limits that bound what one caller may add.
type CallerLimits struct {
	// Servers that one caller may have added, and tools that it may have registered (tool.enable). Default: 8.
	AddedPerPrincipal int `config:"added_per_principal" default:"8" min:"1" max:"1000"`
}

// Offer is what agents are told of a server that they may add.
type Offer struct {
	// What the server is for. Required.
	Description string `config:"description" required:"true" json:"description,omitempty"`
	// Permitted values for each placeholder {NAME} in the server's args, url and env. Default: no placeholders.
	Arguments map[string][]string `config:"arguments" json:"arguments,omitempty"`
}
