// Package acctest is what the tests of all resources and data sources share: the provider inside the test's own
// process, provider blocks for the lab's hosts, and checks of the hosts that don't use the provider.
//
// Only tests may import it. It checks hosts with virsh, never with the code under test.
package acctest
