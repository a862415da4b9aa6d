// Package sdk makes a plugin of typed Go functions. A plugin is a program of its
// own:
//
//	func main() {
//		p := sdk.New("weather", "1.0.0")
//		sdk.Add(p, sdk.Tool{Name: "today", Description: "The weather of a place.", ReadOnly: true, Risk: sdk.Low}, today)
//		p.Serve()
//	}
//
//	type place struct {
//		Name string `json:"name" jsonschema:"a town or village"`
//	}
//
//	type weather struct {
//		Text    string  `json:"text"`
//		Celsius float64 `json:"celsius"`
//	}
//
//	func today(ctx context.Context, call *sdk.Call, in place) (weather, error) {
//		return weather{"sunny", 21}, nil
//	}
//
// The schemas are derived from the types. toolgate has checked the arguments
// against theirs before a function sees them, and starts the program when it is
// named, with its checksum, under toolgate.native.plugins of the configuration.
package sdk
