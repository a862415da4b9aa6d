package sdk_test

import (
	"context"
	"fmt"

	"github.com/toolgate/toolgate/native/sdk"
)

type place struct {
	Name string `json:"name" jsonschema:"a town or village"`
}

type weather struct {
	Text    string  `json:"text"`
	Celsius float64 `json:"celsius"`
}

// A tool is a function whose argument and result are structs: their schemas are derived
// from them. The program ends with p.Serve().
func ExampleAdd() {
	p := sdk.New("weather", "1.0.0")
	sdk.Add(p, sdk.Tool{Name: "today", Description: "The weather of a place.", ReadOnly: true, Risk: sdk.Low},
		func(_ context.Context, _ *sdk.Call, in place) (weather, error) {
			if in.Name == "" {
				return weather{}, sdk.Problemf("name a place")
			}
			return weather{"sunny in " + in.Name, 21}, nil
		})
	tools, err := p.Tools()
	for i := range tools {
		fmt.Println(tools[i].Name, tools[i].Description)
	}
	fmt.Println(err)
	// Output:
	// today The weather of a place.
	// <nil>
}
