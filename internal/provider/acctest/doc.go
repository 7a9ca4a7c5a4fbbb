// Package acctest is what the tests of all resources and data sources share: the provider inside the test's own
// process, provider blocks for the lab's hosts, and looks at the hosts that don't go through the provider.
//
// Only tests may import it. What it checks on a host it checks with virsh, never with the code under test.
package acctest
