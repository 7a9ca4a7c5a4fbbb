// Package exporter serves metrics of all VMs of a fleet to Prometheus, with KubeVirt's names, types, labels and units,
// so that dashboards and alerts for KubeVirt work.
//
// A scrape queries all hosts in parallel: two calls to each host for all its VMs, and one more call for each VM that is
// migrating; once a minute the definitions are read again. A VM whose metadata changed is read again at once, and so is
// the record of a cordoned host, so that a drain shows while it runs. If a host doesn't answer, only its own series are
// missing. Guests, which may not answer, are queried in the background. The hosts' events are also followed in the
// background, so that what happens between scrapes has its exact time.
//
// Start with scrape.go. vmi.go has the metrics as rows; info.go, conditions.go, guests.go, migrations.go and
// transitions.go add those of their subject.
//
// It may import fleet, stats, domain and libvirt. It must not know how hosts are reached.
package exporter
