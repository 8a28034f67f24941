// The least program: it is built with another capacity than halogen::compiled.
#include <halogen/network.hpp>

int main(int argc, char** argv) { hg::Environment env(argc, argv); }
