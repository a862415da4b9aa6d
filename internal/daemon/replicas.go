package daemon

import (
	"cmp"
	"context"
	"net"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/cluster"
	"github.com/toolgate/toolgate/internal/daemon/listen"
	"github.com/toolgate/toolgate/internal/daemon/placed"
	"github.com/toolgate/toolgate/internal/failure"
	"github.com/toolgate/toolgate/internal/version"
	"github.com/toolgate/toolgate/proxy"
	"github.com/toolgate/toolgate/upstream/transport"
)

// newCluster makes this gateway one of those that share its database, where the
// configuration says how the others reach it.
func (d *Daemon) newCluster() (err error) {
	address := d.settings.boot.Cluster.Advertise
	if address == "" {
		return nil
	}
	certs, err := listen.NewCertificates(d.Current())
	if err != nil {
		return err
	}
	d.cluster, err = cluster.New(cluster.Options{
		Store: cluster.NewMembers(d.store), Keys: d.keys, Address: address, Version: version.Version, Log: d.log,
		Load: func() cluster.Load {
			sessions, calls := d.gateway.Load()
			return cluster.Load{Sessions: sessions, Calls: calls, Runs: d.agents.Active(), Jobs: d.queues.Count()}
		},
		Verify: certs.Verify, Returned: func() { proxy.Returned(d.gateway) },
		Servers: d.places, Told: d.places.Told, Lost: d.places.Lost,
	})
	if err != nil {
		return failure.New(failure.Config, err)
	}
	d.places.Among(d.cluster)
	return nil
}

// placed returns how servers are reached that this gateway shares with others; nil where it
// is alone.
func (d *Daemon) placed() func(copies int, exclusive bool) transport.Placed {
	if d.settings.boot.Cluster.Advertise == "" {
		return nil
	}
	d.places = placed.New(d.log, cluster.NewClaims(d.store, func() string { return d.cluster.Self() }), d.announceOffers)
	return d.places.Server
}

// runCluster serves what other gateways pass on until ctx ends, and keeps this gateway among
// them until the context of its membership does.
func (d *Daemon) runCluster(ctx, member context.Context) error {
	if d.cluster == nil {
		return nil
	}
	at := d.settings.boot.Cluster
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cmp.Or(at.Listen, at.Advertise))
	if err != nil {
		return failure.Newf(failure.Unreachable, "cluster: %w; set cluster.listen to an address of this machine, such as 0.0.0.0:7780", err)
	}
	d.tasks.Go(func() { _ = d.cluster.Run(member) })
	d.tasks.Go(func() { d.places.Run(member) })
	return d.cluster.Serve(ctx, l, d.Handler(), func() time.Duration { return time.Second })
}

// announceLists tells the others that lists of this gateway have changed.
func (d *Daemon) announceLists() {
	if err := cluster.Announce(d.store, cluster.TopicLists); err != nil {
		d.log.Warn("the other gateways are not told that lists have changed here; their clients may have asked for them too early", "err", err)
	}
}

// announceOffers tells the others that this gateway runs servers that it did not run before.
func (d *Daemon) announceOffers() {
	if err := cluster.Announce(d.store, cluster.TopicOffers); err != nil {
		d.log.Warn("the other gateways are not told what this one runs; a server that belongs here may stay elsewhere for some minutes", "err", err)
	}
}

// announceBreaker tells the others that this gateway has stopped calling a server.
func (d *Daemon) announceBreaker(server string) {
	if d.cluster == nil {
		return
	}
	if err := cluster.Announce(d.store, cluster.TopicBreaker+server); err != nil {
		d.log.Warn("the other gateways find out by themselves that a server fails", "server", server, "err", err)
	}
}

// Replicas implements [admin.Replicas].
func (ctl *Control) Replicas() (out []admin.Replica) {
	of := ctl.d.cluster
	if of == nil {
		return nil
	}
	for _, m := range of.Members() {
		out = append(out, admin.Replica{
			ID: m.ID, Address: m.Address, Version: m.Version, Draining: m.Draining, Sessions: m.Sessions, Calls: m.Calls, Runs: m.Runs, Jobs: m.Jobs, Started: m.Started,
			Self: m.ID == of.Self(),
		})
	}
	return out
}
