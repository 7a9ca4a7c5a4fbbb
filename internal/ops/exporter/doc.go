// Package exporter serves metrics of all VMs of a fleet to Prometheus, under the names, types, labels and
// units that KubeVirt gives them, so that dashboards and alerts that were written for it work.
//
// A scrape asks all hosts at the same time, each in one pass: two calls for all
// its VMs, and one more for each VM that migrates; once a minute the definitions are read again. A host that
// doesn't answer costs its own series. Guests, which may be silent, are asked in the background, and the hosts' events
// are followed there, so that what happens between scrapes is timed.
//
// It may import fleet, stats, domain and libvirt. It must not know how hosts are reached.
package exporter
