// The least program: it is built with other kernels than halogen::compiled.
#include <halogen/network.hpp>

int main(int argc, char** argv) { hg::Environment env(argc, argv); }
