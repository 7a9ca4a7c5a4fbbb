// Package migrationcandidates is the data source virtfleet_migration_candidates: for one VM, every host, and whether
// the VM could be moved there.
//
// It may import the fleet, the plugin framework and the provider's small packages. It must not judge a host itself.
package migrationcandidates
