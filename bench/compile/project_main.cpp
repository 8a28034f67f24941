// The file of a project of two that does not know the model: it is not compiled again where a layer changes.
double train(int argc, char** argv);
int main(int argc, char** argv) { return train(argc, argv) > 0 ? 0 : 1; }
