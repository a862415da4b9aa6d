package embedded

import (
	"encoding/json"
	"os"
	"time"

	"github.com/toolgate/toolgate/native/handshake"
)

// logError writes a line in the format of hclog, which go-plugin reads.
func logError(message string, keyed ...string) {
	line := map[string]string{
		"@level": "error", "@message": message, "@module": handshake.Chosen, "@timestamp": time.Now().Format("2006-01-02T15:04:05.000000Z07:00"),
	}
	for i := 0; i+1 < len(keyed); i += 2 {
		line[keyed[i]] = keyed[i+1]
	}
	raw, err := json.Marshal(line)
	if err != nil {
		return // strings can always be written as JSON
	}
	_, _ = os.Stderr.Write(append(raw, '\n'))
}
