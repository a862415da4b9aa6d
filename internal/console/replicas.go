package console

import (
	"net/http"

	"github.com/toolgate/toolgate/internal/admin"
)

// replicasData are the gateways that share the database; none for a gateway alone.
type replicasData struct{ Replicas []admin.Replica }

// replicas shows the gateways that share the database.
func (v *visit) replicas() {
	v.render(http.StatusOK, &page{Title: "Replicas", View: "replicas", Command: command("status", "--all"), Data: &replicasData{v.model.Replicas()}})
}
